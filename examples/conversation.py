"""A whole conversation without any endpoint: a hub, a tool server, and a model that answers from a script.

Run it: `python examples/conversation.py`. Another `ModelSettings` in its place talks to a real one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import Config, ServerSettings
from interlock.host import Host
from interlock.hub.app import HubApp

SCRIPT = [
    {"when": "How many words", "text": "I count.", "tool": "demo__text_figures", "arguments": {"text": "{user}"}},
    {"when": '"words"', "text": "The tool says: {result}"},
    {"text": "You said: {user}"},
]


async def main(folder: Path) -> list[str]:
    """Hold a conversation of two turns. Returns its answers."""
    script = folder / "answers.json"
    script.write_text(json.dumps(SCRIPT))
    model = ModelSettings(kind="scripted", script=str(script), price_input=1.0, price_output=5.0)
    demo = ServerSettings(command=(sys.executable, "-P", "-m", "interlock.server.demo"))
    config = Config(servers={"demo": demo}, models={"toy": model}, host=HostSettings(system="Be brief."))
    hub = HubApp(config, folder / "home")
    await hub.start()
    await hub.upstreams["demo"].supervisor.started()
    host = Host(hub)
    await host.start()
    answers = []
    try:
        conversation = await host.create()
        for question in ("How many words are in this sentence?", "Thank you."):
            turn = await host.send(conversation, question)
            async for piece in turn:
                if piece.kind == "tool":
                    print(f"\n· {piece.name} {piece.text}")
                elif piece.kind == "text":
                    print(piece.text, end="", flush=True)
            print()
            answers.append(await turn.answer())
    finally:
        await host.close()
        await hub.stop()
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
