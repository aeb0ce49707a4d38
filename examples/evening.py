"""An evening with MCP Live, scripted: nothing here needs a model, a network or a person.

Alice asks something in a chat. Then a build fails: a signed webhook wakes the same conversation, the memory server adds
what it knows, a tool writes a note, the compliance server takes a secret out of the answer, and the answer goes to the
chat. At the end a rollback takes the note back. Run it with `python examples/evening.py`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from compliance_server import server as compliance
from memory_server import server as memory
from standardwebhooks import Webhook

from interlock import Context, Server
from interlock.config.channel_settings import ChannelSettings
from interlock.config.live_settings import HookSettings, LiveRuleSettings, LiveSettings, ServerLiveSettings
from interlock.config.model_settings import ModelSettings
from interlock.config.settings import AgentSettings, Config
from interlock.config.settings import ServerSettings as Settings
from interlock.host import Host
from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.server import ChannelAuthor, IncomingMessage, Publish, StateReport, ToolResult

SECRET = base64.b64encode(b"a secret of 24 bytes or more").decode()
SCRIPT = [
    {"when": "What is noted", "tool": "notes__list_notes"},
    {"when": "build.failed", "tool": "notes__add_note", "arguments": {"text": "Build 17 failed"}},
    {"when": "1 note", "text": "I noted it. The deploy key in the log is sk-1234567890abcdef."},
    {"text": "Nothing is noted yet."},
]

notes, kept = Server("notes"), list[str]()
notes.feature("notes.edit", "Manage notes", uses=["tools"], rollback=True)
EDITS = {"dev.interlock/featureSet": "notes.edit"}


@notes.tool(meta=EDITS)
def list_notes() -> ToolResult:
    """How many notes there are."""
    return ToolResult(content=f"{len(kept)} notes", state=StateReport(f"chk_{len(kept)}", data=kept))


@notes.tool(meta=EDITS)
def add_note(text: str, ctx: Context) -> ToolResult:
    """Write a note."""
    parent = f"chk_{len(kept)}"
    kept.append(text)
    return ToolResult(content=f"{len(kept)} note", state=StateReport(f"chk_{len(kept)}", parent, list(kept)))


@notes.rollback("notes.edit")
def take_back(checkpoint: str) -> None:
    """Go back to a number of notes."""
    del kept[int(checkpoint.removeprefix("chk_")) :]


chat, posted = Server("chat"), asyncio.Queue[str]()
chat.feature("chat.talk", "Talk in the team's chat", uses=["channels.publish", "channels.observe"])
chat.channel("chat:#team", "chat", "#team")


@chat.on_publish
async def post(message: Publish) -> str:
    """Deliver a message to the chat."""
    await posted.put("".join(getattr(block, "text", "") for block in message.content))
    return f"msg_{posted.qsize()}"


SERVERS = {"memory": memory, "compliance": compliance, "notes": notes, "chat": chat}
FEATURES = {"memory": "memory.retrieval", "compliance": "compliance.*", "notes": "notes.*", "chat": "chat.*"}


def configuration(folder: Path, urls: dict[str, str]) -> Config:
    """The grants are written out: what is not granted here is denied."""
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    grants = {
        "memory": ServerLiveSettings(grant=("contextHooks.beforeInference.inject.system",)),
        "compliance": ServerLiveSettings(grant=("contextHooks.afterInference.rewrite",), after_hook="fail-closed"),
    }
    return Config(
        servers={name: Settings(url=url, live=grants.get(name, ServerLiveSettings())) for name, url in urls.items()},
        agents={"assistant": AgentSettings()},
        models={"toy": ModelSettings(kind="scripted", script=str(folder / "script.json"))},
        hooks={"ci": HookSettings(agent="assistant", secret_env="CI_SECRET")},  # noqa: S106 - the name of a variable
        # Nobody is there to approve the tool call that follows an event from outside.
        live=LiveSettings(rules={"all": LiveRuleSettings(then="wake", quiet_s=0)}, ask_s=0),
        channels={"team": ChannelSettings(agent="assistant", incoming=("chat/**",), publish="chat/chat:#team")},
    )


async def build_fails(hub: HubApp) -> None:
    """The answer of `POST /hooks/ci` to a signed message."""
    body, at = json.dumps({"type": "build.failed", "build": 17}), datetime.now(UTC)
    signature = Webhook(SECRET).sign("evt_1", at, body)
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    await hub.live.hooks.receive("ci", headers, body.encode())


async def evening(folder: Path) -> dict[str, object]:
    """Everything above, in order. Returns what happened."""
    os.environ["CI_SECRET"] = SECRET
    async with contextlib.AsyncExitStack() as stack:
        urls = {name: (await stack.enter_async_context(each.http())).url for name, each in SERVERS.items()}
        hub = HubApp(configuration(folder, urls), folder)
        await hub.start()
        stack.push_async_callback(hub.stop)
        host = Host(hub)
        await host.start()
        stack.push_async_callback(host.close)
        operations = Operations(hub, lambda: None, host=host)

        async def do(name: str, **params: object) -> dict[str, object]:
            done = await operations.perform(operations.hub_user, name, msgspec.json.encode(params))
            said: dict[str, object] = msgspec.to_builtins(done)
            return said

        for server, features in FEATURES.items():
            while hub.live.connections.shared(server) is None:
                await asyncio.sleep(0.01)
            enabled = {"server": server, "features": [features], "agent": "assistant"}
            await do("features.enable", **enabled, terminal=True)
        talk = hub.live.connections.shared("chat")
        while talk is None or not talk.channels:
            await asyncio.sleep(0.01)

        alice = ChannelAuthor("u_1", "Alice")
        asked = IncomingMessage("chat:#team", "d1", alice, datetime.now(UTC).isoformat(), "What is noted?")
        (received,) = await chat.incoming(asked)
        first = await posted.get()
        await build_fails(hub)
        second = await posted.get()
        noted = list(kept)

        conversation = received.conversation_id
        plan = await do("rollback.plan", id=conversation)
        done = await do("rollback.run", id=conversation, plan=plan["digest"])
        shown = await do("conversations.show", id=conversation)
        return {
            "first": first, "second": second, "noted": noted, "after": list(kept), "plan": plan, "done": done,
            "conversation": shown,
        }  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        print(json.dumps(asyncio.run(evening(Path(home))), indent=2, default=str))
