"""A caller that is admitted once for a whole conversation, as in 2024-11-05, is held to the current rules."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from interlock.config.settings import AgentSettings, ProfileSettings

from .running_hub import RawClient, RunningHub, child, running_hub, text_of

ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
WIDE, NARROW = AgentSettings(profile="wide"), AgentSettings(profile="narrow")
PROFILES = {"wide": ProfileSettings(), "narrow": ProfileSettings(tools=("busy__fail",))}


class SseClient:
    """A client of the older HTTP transport."""

    def __init__(self, hub: RunningHub, key: str) -> None:
        self._hub = hub
        self._key = key

    async def __aenter__(self) -> SseClient:
        host, port = self._hub.url.removeprefix("http://").split(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        said = f"Host: {host}:{port}\r\nAuthorization: Bearer {self._key}\r\nAccept: text/event-stream\r\n"
        self._writer.write(f"GET /sse HTTP/1.1\r\n{said}\r\n".encode())
        await asyncio.wait_for(self._reader.readuntil(b"/messages/"), 120)
        place = await self._reader.readline()
        self._raw = RawClient(f"{self._hub.url}/messages/{place.strip().decode()}", self._key)
        await self.ask("initialize", HELLO, 1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, params: dict[str, Any], id: int) -> Any:
        """A request, and its answer among all that comes."""
        await self._raw.post(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        async with asyncio.timeout(120):
            while True:
                line = await self._reader.readline()
                if line.startswith(b"data: {") and (message := json.loads(line[6:])).get("id") == id:
                    return message


async def test_a_profile_that_is_taken_away_is_taken_from_open_conversations(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers, profiles=PROFILES, agents={"ci": WIDE}) as hub:
        hub_app = hub.hub_app
        async with SseClient(hub, await hub.new_key("ci")) as client:
            assert text_of(await client.ask("tools/call", ECHO, 2)) == "x"
            await hub_app.apply(msgspec.structs.replace(hub_app.config, agents={"ci": NARROW}))
            assert (await client.ask("tools/call", ECHO, 3))["error"]["data"]["name"] == "TOOL_NOT_FOUND"
            listed = (await client.ask("tools/list", {}, 4))["result"]["tools"]
            assert "busy__echo" not in [tool["name"] for tool in listed]
            await hub_app.apply(msgspec.structs.replace(hub_app.config, agents={"ci": WIDE}))
            assert text_of(await client.ask("tools/call", ECHO, 5)) == "x"


async def test_a_profile_that_is_gone_leaves_a_conversation_what_everyone_has(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers, profiles=PROFILES, agents={"ci": WIDE}) as hub:
        hub_app = hub.hub_app
        async with SseClient(hub, await hub.new_key("ci")) as client:
            await hub_app.apply(msgspec.structs.replace(hub_app.config, agents={}, profiles={}))
            assert text_of(await client.ask("tools/call", ECHO, 2)) == "x"


async def test_calls_go_on_when_access_changes_for_somebody_else(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        async with SseClient(hub, await hub.new_key("ci")) as client:
            for number in range(2, 6):
                assert text_of(await client.ask("tools/call", ECHO, number)) == "x"
            await hub.deny("somebody else", "busy")
            for number in range(6, 10):
                assert text_of(await client.ask("tools/call", ECHO, number)) == "x"
