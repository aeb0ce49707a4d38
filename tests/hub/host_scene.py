"""A hub between a client that is a host of MCPL and hand-written servers, and what a test says to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from interlock.config.live_settings import LiveRuleSettings, LiveSettings, ServerLiveSettings
from interlock.config.settings import (
    ServerSettings,
)

from .host_client import HostClient
from .running_hub import RawClient, RunningHub, child, running_hub

SETS: dict[str, Any] = {
    "note.recall": {"description": "Recalls", "uses": ["contextHooks.beforeInference"]},
    "note.check": {"description": "Checks", "uses": ["contextHooks.afterInference"]},
    "note.push": {"description": "Reminds", "uses": ["pushEvents"]},
    "note.alarm": {"description": "Warns", "uses": ["pushEvents"]},
    "note.think": {"description": "Thinks", "uses": ["inferenceRequest"]},
    "note.edit": {"description": "Edits", "uses": ["tools"], "rollback": True},
    "note.talk": {"description": "Talks", "uses": ["channels.publish", "channels.observe"]},
}
OFFER: dict[str, Any] = {
    "version": "0.4",
    "pushEvents": True,
    "contextHooks": {"beforeInference": True, "afterInference": {"blocking": True}},
    "inferenceRequest": {"streaming": True},
    "channels": {"register": True, "publish": True, "observe": True, "lifecycle": True, "streaming": True},
    "featureSets": SETS,
}
TURN: dict[str, Any] = {"inferenceId": "inf_1", "conversationId": "c1", "turnIndex": 0, "userMessage": "Hello."}


@contextlib.asynccontextmanager
async def between(
    folder: Path,
    *names: str,
    grants: Mapping[str, tuple[str, ...]] | None = None,
    offer: Mapping[str, Any] = OFFER,
    write: Mapping[str, Any] | None = None,
    server: Mapping[str, Any] | None = None,
    ask_s: float = 1800.0,
    **settings: Any,
) -> AsyncIterator[RunningHub]:
    """A hub without a model, with hand-written servers whose feature sets are on for the agent `mine`."""
    tables: dict[str, ServerSettings] = {}
    for name in names or ("a",):
        live = ServerLiveSettings(grant=(grants or {}).get(name, ()))
        said = (json.dumps({"experimental": {"mcpl": offer}}), json.dumps(write or {}))
        tables[name] = child("live_server.py", *said, **{"live": live, **(server or {})})
    wakes = LiveSettings(rules={"w": LiveRuleSettings(then="wake", quiet_s=0)}, ask_s=ask_s)
    async with running_hub(folder, tables, live=wakes, **settings) as hub:
        for name in tables:
            await enable(hub, name, "note.**")
        yield hub


async def enable(hub: RunningHub, server: str, *features: str, agent: str = "mine") -> None:
    await hub.operate("features.enable", server=server, features=list(features), agent=agent, terminal=True)


async def drive(hub: RunningHub, server: str, tool: str, /, **arguments: Any) -> Any:
    """Have a server say or show something, by a caller that is nobody's host."""
    client = RawClient(hub.url + "/mcp", hub.key("driver"))
    answer = await client.modern("tools/call", {"name": f"{server}__{tool}", "arguments": arguments})
    return json.loads(answer["result"]["content"][0]["text"])


async def reply(hub: RunningHub, server: str, method: str, result: Any) -> None:
    await drive(hub, server, "reply", method=method, result=result)


async def heard(hub: RunningHub, server: str, method: str) -> list[Any]:
    return [said["params"] for said in await drive(hub, server, "heard") if said.get("method") == method]


def injects(*texts: str, position: str = "beforeUser") -> dict[str, Any]:
    injections = [{"namespace": "n", "position": position, "content": text, "metadata": {"k": 1}} for text in texts]
    return {"featureSet": "note.recall", "contextInjections": injections}


def event(id: str, text: str = "It rains.", feature: str = "note.push") -> dict[str, Any]:
    said = {"featureSet": feature, "eventId": id, "timestamp": "2026-01-23T10:30:00Z", "origin": {"hook": "sky"}}
    return {**said, "payload": {"content": [{"type": "text", "text": text}]}}


async def asked(client: HostClient) -> dict[str, Any]:
    """The next request of a server that reached a client."""
    return await asyncio.wait_for(client.asked.get(), 60)


GENERAL: dict[str, Any] = {"id": "chat:#general", "type": "chat", "label": "General", "direction": "bidirectional"}
