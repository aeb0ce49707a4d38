"""MCP Live's memory server: it recalls before an inference, learns after one, summarizes with a model, and reminds.

Run it behind a hub with `interlock add ./examples/memory_server.py`. Each feature set is off until a person enables it:
`interlock features enable memory "memory.*" --agent NAME`. Memories go before the user's message; to put them into the
system prompt, as `POSITION` says, the operator grants `contextHooks.beforeInference.inject.system` as well.
"""

from __future__ import annotations

import os
import re
from typing import Literal, cast

from interlock import Server
from interlock.server import AfterInference, BeforeInference, Injection

Position = Literal["system", "beforeUser", "afterUser"]
POSITION = cast(Position, os.environ.get("MEMORY_POSITION", "beforeUser"))
_WORD = re.compile(r"\w{4,}")

server = Server("memory", "1.0.0")
server.feature("memory.retrieval", "Retrieve relevant memories", uses=["contextHooks.beforeInference"])
server.feature("memory.extraction", "Learn from conversations", uses=["contextHooks.afterInference"])
server.feature("memory.consolidation", "Summarize memories using AI", uses=["inferenceRequest"])
server.feature("memory.proactive", "Surface reminders proactively", uses=["pushEvents"])

memories = ["Scaling mannequin installation to 8-10 units. DMX lighting, X32 audio routing."]


@server.before_inference("memory.retrieval")
def retrieve(turn: BeforeInference) -> Injection | None:
    """The memories that share a word with the user's message; the newest where no user spoke."""
    wanted = set(_WORD.findall((turn.user_message or "").lower()))
    found = [memory for memory in memories if wanted & set(_WORD.findall(memory.lower()))]
    if turn.user_message is None:
        found = memories[-3:]
    if not found:
        return None
    return Injection("memory", POSITION, "<memories>\n" + "\n".join(found) + "\n</memories>", {"found": len(found)})


@server.after_inference("memory.extraction")
def learn(turn: AfterInference) -> None:
    """Keep what the user asks to be remembered."""
    _, asked, fact = (turn.user_message or "").partition("Remember: ")
    if asked:
        memories.append(fact)


@server.tool
async def consolidate() -> str:
    """Summarize all memories into one."""
    result = await server.infer("memory.consolidation", "Summarize: " + " ".join(memories), max_tokens=500)
    memories[:] = [result.content]
    return result.content


@server.tool
async def remind(about: str) -> bool:
    """Remind the user of something now."""
    answers = await server.push("memory.proactive", about, origin={"server": "memory"})
    return any(answer.accepted for answer in answers)


if __name__ == "__main__":
    server.run()
