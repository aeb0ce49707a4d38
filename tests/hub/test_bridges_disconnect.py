"""A client that goes without a word: in the stateless era that cancels, in the handshake era it does not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.config.settings import ServerSettings

from .asking_server import Counts, asking_server
from .legacy_client import LegacyClient, answers
from .running_hub import MODERN, RawClient, running_hub, until

Era = Literal["modern", "legacy"]
CAPABILITIES: dict[str, Any] = {"elicitation": {}}


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("client", ["modern", "legacy"])
@pytest.mark.parametrize("declares", [False, True], ids=["shared", "own session"])
async def test_going_cancels_at_the_server_in_the_new_era_alone(
    tmp_path: Path, client: Era, era: Era, declares: bool
) -> None:
    counts = Counts()
    capabilities: dict[str, Any] = CAPABILITIES if declares else {}
    async with (
        asking_server(counts).http() as address,
        running_hub(tmp_path, {"a": ServerSettings(url=address.url, era=era)}) as hub,
    ):
        caller = RawClient(hub.url + "/mcp")
        params: dict[str, Any] = {"name": "a__hang", "arguments": {"mark": "x"}}
        headers = {}
        if client == "modern":
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }
            headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "a__hang"}
        else:
            await caller.initialize(capabilities)
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
        gone = asyncio.ensure_future(caller.post(body, headers))
        await until(lambda: counts.runs["x"] == 1)
        gone.cancel()
        if client == "legacy":
            # Something else goes through meanwhile, so that the hub has seen the connection close.
            await caller.legacy("tools/call", {"name": "a__number", "arguments": {}}, id=8)
            assert hub.hub_app.hub.open_calls == 1
            assert not counts.ended
            told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            await caller.post(json.dumps(told).encode())
        await until(lambda: counts.ended["cancelled x"] == 1)
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        assert counts.runs["x"] == 1


async def test_an_old_client_that_came_back_finds_what_was_asked_and_answered_meanwhile(
    tmp_path: Path, era: Era
) -> None:
    async with (
        asking_server().http() as address,
        running_hub(tmp_path, {"a": ServerSettings(url=address.url, era=era)}) as hub,
    ):
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(CAPABILITIES)
        params = {"name": "a__order", "arguments": {}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        reader, writer = await asyncio.open_connection(legacy_client.host, int(legacy_client.port))
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {legacy_client.host}:{legacy_client.port}\r\n"
            "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            f"mcp-session-id: {legacy_client.session}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        seen, question = "", None
        while question is None:
            line = await asyncio.wait_for(reader.readline(), 120)
            if line.startswith(b"id:"):
                seen = line[3:].strip().decode()
            elif line.startswith(b"data:") and b"elicitation/create" in line:
                question = json.loads(line[5:])
        writer.close()
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": legacy_client.answers["elicitation/create"]}
        assert (await legacy_client.post(json.dumps(reply).encode()))[0] == 202
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        _, _, rest = await legacy_client.send("GET", b"", {"last-event-id": seen, "accept": "text/event-stream"})
        answer = next(json.loads(line[5:]) for line in rest.split(b"\n") if line.startswith(b"data: {"))
        assert json.loads(answer["result"]["content"][0]["text"])[0] == "accept"
