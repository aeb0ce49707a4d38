"""A credential beside the method: on a stream without headers it says who asks; anywhere else it is never taken for
none, and it goes nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.hub.admin.operations import Operations
from interlock.web.control import ControlSocket

from .running_hub import MODERN, RawClient, RunningHub, child, running_hub

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}


class Stream:
    """A client of `interlock stdio`, behind its pipe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.count = 0

    async def ask(self, method: str, params: dict[str, Any], **top: Any) -> Any:
        self.count += 1
        self.writer.write(
            json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params, **top}).encode() + b"\n"
        )
        async with asyncio.timeout(120):
            while True:
                answer = json.loads(await self.reader.readline())
                if answer.get("id") == self.count:
                    return answer

    async def call(self, token: Any = None, **top: Any) -> Any:
        if token is not None:
            top["auth"] = {"type": "bearer", "token": token}
        return await self.ask("tools/call", {**ECHO, "_meta": META}, **top)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[RunningHub]:
    # A socket's address has little room, and a test's own folder a long name.
    with tempfile.TemporaryDirectory(prefix="il") as home:
        async with running_hub(Path(home), {"busy": child("busy_server.py")}) as hub:
            control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None))
            await control.listen(Path(home) / "s")
            try:
                yield hub
            finally:
                await control.close()


@contextlib.asynccontextmanager
async def stream(hub: RunningHub, key: str | None = None) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_unix_connection(str(hub.hub_app.home.parent / "s"))
    made = Stream(reader, writer)
    assert "result" in await made.ask("interlock/hello", {"role": "stdio", "key": key})
    yield made
    writer.close()


async def actors(hub: RunningHub) -> list[str]:
    """The callers, in order."""
    from .test_journal import entries

    return [entry.record.actor for entry in await entries(hub, event="TOOL_EXECUTED")]


async def test_a_request_on_a_stream_is_whose_credential_it_brings() -> None:
    async with running() as hub:
        ci, other = await hub.new_key("ci"), await hub.new_key("other")
        async with stream(hub) as client:
            for token in (None, ci, other):
                assert "result" in await client.call(token)
        assert await actors(hub) == ["local", "ci", "other"]


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": "ilk_garbage"},
        {"type": "bearer", "token": ""},
        {"type": "bearer", "token": 5},
        {"type": "basic", "token": "x"},
        {"type": "bearer"},
        {},
        "ilk_garbage",
        [],
        None,
    ],
)
async def test_t3_a_credential_in_a_message_that_is_not_good_is_not_none(auth: Any) -> None:
    async with running() as hub:
        async with stream(hub) as client:
            answer = await client.call(auth=auth)
            assert answer["error"]["data"]["name"] == "AUTH_REQUIRED"
        over_http = RawClient(hub.url + "/mcp")
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**ECHO, "_meta": META}, "auth": auth}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "busy__echo"}
        assert (await over_http.post(json.dumps(body).encode(), headers))[0] == 401
        assert await actors(hub) == []


async def test_a_session_is_its_openers_and_a_stream_with_a_key_its_keys() -> None:
    async with running() as hub:
        ci, other = await hub.new_key("ci"), await hub.new_key("other")
        async with stream(hub) as client:
            info = {"name": "raw", "version": "1"}
            opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
            assert "result" in await client.ask("initialize", opening, auth={"type": "bearer", "token": ci})
            assert "result" in await client.ask("tools/call", ECHO)
            assert "result" in await client.ask("tools/call", ECHO, auth={"type": "bearer", "token": ci})
            refused = await client.ask("tools/call", ECHO, auth={"type": "bearer", "token": other})
            assert refused["error"]["data"]["name"] == "ACCESS_DENIED"
        async with stream(hub, ci) as client:
            assert "result" in await client.call(ci)
            assert (await client.call(other))["error"]["data"]["name"] == "ACCESS_DENIED"
        assert await actors(hub) == ["ci"] * 3
        kept = b"".join(file.read_bytes() for file in hub.hub_app.home.rglob("*") if file.is_file())
        assert ci.encode() not in kept


async def test_t3_in_a_batch_a_credential_beside_the_method_is_refused_for_that_request_alone() -> None:
    async with running() as hub:
        key = await hub.new_key("ci")
        asked = [
            {"jsonrpc": "2.0", "id": "none", "method": "tools/call", "params": ECHO},
            {"jsonrpc": "2.0", "id": "good", "method": "tools/call", "params": ECHO, "auth": bearer(key)},
            {"jsonrpc": "2.0", "id": 7, "method": "ping", "auth": bearer("ilk_garbage")},
        ]
        answers = await batch(RawClient(hub.url + "/mcp"), asked)
        assert "result" in answers["none"]
        assert {answers[id_]["error"]["data"]["name"] for id_ in ("good", 7)} == {"AUTH_REQUIRED"}
        assert await actors(hub) == ["local"], "the key of a request is neither passed over nor used"
        # Where the header says who asks, what stands beside a method is passed over, in a batch as in a single request.
        answers = await batch(RawClient(hub.url + "/mcp", key), asked)
        assert all("result" in answer for answer in answers.values())
        assert await actors(hub) == ["local", "ci", "ci"]


async def test_t3_on_the_older_transport_a_credential_beside_the_method_is_refused_too() -> None:
    async with running() as hub:
        key = await hub.new_key("ci")
        for header, wanted in ((None, "AUTH_REQUIRED"), (key, None)):
            async with older(hub, header) as client:
                info = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                }
                assert "result" in await client.ask("initialize", info)
                answer = await client.ask("tools/call", ECHO, auth=bearer(key))
                assert answer.get("error", {}).get("data", {}).get("name") == wanted
        assert await actors(hub) == ["ci"]


def bearer(token: str) -> dict[str, str]:
    return {"type": "bearer", "token": token}


async def batch(client: RawClient, asked: list[Any]) -> dict[Any, Any]:
    """The answers to a batch, by id."""
    await client.initialize(version="2025-03-26")
    _, _, body = await client.post(json.dumps(asked).encode())
    return {answer["id"]: answer for answer in json.loads(body)}


class SseStream(Stream):
    """A client of the transport of revision 2024-11-05: it reads events and posts what it says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, post: RawClient) -> None:
        super().__init__(reader, writer)
        self.post = post

    async def ask(self, method: str, params: dict[str, Any], **top: Any) -> Any:
        self.count += 1
        asked = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params, **top}
        assert (await self.post.post(json.dumps(asked).encode()))[0] == 202
        async with asyncio.timeout(120):
            while True:
                line = await self.reader.readline()
                if line.startswith(b"data:") and json.loads(line[5:]).get("id") == self.count:
                    return json.loads(line[5:])


@contextlib.asynccontextmanager
async def older(hub: RunningHub, key: str | None) -> AsyncIterator[SseStream]:
    host, port = hub.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    said = "" if key is None else f"authorization: Bearer {key}\r\n"
    writer.write(f"GET /sse HTTP/1.1\r\nhost: {host}:{port}\r\naccept: text/event-stream\r\n{said}\r\n".encode())
    async with asyncio.timeout(120):
        while not (line := await reader.readline()).startswith(b"data: /messages/"):
            pass
    yield SseStream(reader, writer, RawClient(hub.url + line[6:].strip().decode(), key))
    writer.close()
