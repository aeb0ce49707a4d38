"""A revocation holds for open streams too, and the audit log names the principal that made it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .running_hub import MODERN, RawClient, RunningHub, child, messages, running_hub, text_of, until
from .test_journal import entries

URI = "interlock://busy/text://one"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as running:
        yield running


class RecordingListener:
    """A stream of a client, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.heard = b""
        self.over = asyncio.Event()
        self.reading = asyncio.ensure_future(self._read())

    def methods(self) -> list[str]:
        return [message["method"] for message in messages(self.heard) if "method" in message]

    async def _read(self) -> None:
        while piece := await self._reader.read(65_536):
            self.heard += piece
        self.over.set()


@contextlib.asynccontextmanager
async def stream(hub: RunningHub, head: str, body: bytes = b"") -> AsyncIterator[RecordingListener]:
    host, port = hub.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    said = f"host: {host}:{port}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
    writer.write(f"{head}\r\n{said}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    listener = RecordingListener(reader)
    try:
        yield listener
    finally:
        writer.close()
        await listener.reading


@contextlib.asynccontextmanager
async def listening(hub: RunningHub, key: str, **wanted: Any) -> AsyncIterator[RecordingListener]:
    """A `subscriptions/listen` stream, once it is acknowledged."""
    params = {"notifications": {"resourceSubscriptions": [URI], **wanted}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).encode()
    head = f"POST /mcp HTTP/1.1\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: subscriptions/listen\r\n"
    async with stream(hub, f"{head}authorization: Bearer {key}", body) as listener:
        await until(lambda: listener.methods() == ["notifications/subscriptions/acknowledged"])
        yield listener


@contextlib.asynccontextmanager
async def in_session(hub: RunningHub, key: str) -> AsyncIterator[RecordingListener]:
    """The standing stream of a session that subscribed."""
    client = RawClient(hub.url + "/mcp", key)
    await client.initialize()
    assert "result" in await client.legacy("resources/subscribe", {"uri": URI})
    head = f"GET /mcp HTTP/1.1\r\nauthorization: Bearer {key}\r\nmcp-session-id: {client.session}"
    async with stream(hub, f"{head}\r\nmcp-protocol-version: 2025-11-25") as listener:
        await until(lambda: b"200 OK" in listener.heard)
        yield listener


async def touch(hub: RunningHub, told: RecordingListener) -> None:
    """Have the resource change, and wait until somebody else has heard of it."""
    before = len(told.methods())
    toucher = RawClient(hub.url + "/mcp", hub.key("toucher"))
    assert "result" in await toucher.modern("tools/call", {"name": "busy__touch", "arguments": {}})
    await until(lambda: len(told.methods()) > before)


@pytest.mark.parametrize("opened", [listening, in_session])
@pytest.mark.parametrize("how", ["denied", "revoked"])
async def test_t31_an_open_stream_is_not_told_of_resources_that_were_taken_back(
    hub: RunningHub, opened: Any, how: str
) -> None:
    async with opened(hub, await hub.new_key("ada")) as ada, listening(hub, await hub.new_key("bob")) as bob:
        await touch(hub, bob)
        await until(lambda: ada.methods()[-1:] == ["notifications/resources/updated"])
        heard = ada.methods().count("notifications/resources/updated")
        if how == "denied":
            await hub.deny("ada", "busy")
        else:
            await hub.hub_app.keys.revoke("ada")
        await touch(hub, bob)
        assert ada.methods().count("notifications/resources/updated") == heard


async def test_t31_a_listen_stream_ends_with_the_key_that_opened_it(hub: RunningHub) -> None:
    async with listening(hub, await hub.new_key("ada")) as ada, listening(hub, await hub.new_key("bob")) as bob:
        await hub.hub_app.keys.rotate("ada")
        await asyncio.wait_for(ada.over.wait(), 120)
        assert messages(ada.heard)[-1]["result"]["resultType"] == "complete"
        await touch(hub, bob)
        assert not bob.over.is_set()


async def test_t31_a_call_without_a_session_ends_with_its_key(hub: RunningHub) -> None:
    ada, bob = [RawClient(hub.url + "/mcp", await hub.new_key(name)) for name in ("ada", "bob")]
    hanging = [
        asyncio.ensure_future(each.modern("tools/call", {"name": "busy__hang", "arguments": {"mark": mark}}))
        for each, mark in ((ada, "ada"), (bob, "bob"))
    ]
    await marked(bob, "begun", "ada,bob")
    await hub.hub_app.keys.revoke("ada")
    answer = await hanging[0]
    assert answer["error"]["data"]["name"] == "AUTH_REQUIRED"
    assert "no longer valid" in answer["error"]["message"]
    await marked(bob, "cancelled", "ada")
    (entry,) = await entries(hub, event="TOOL_EXECUTED", actor="ada")
    assert entry.record.outcome is not None
    assert entry.record.outcome.transport == "cancelled"
    assert not hanging[1].done()
    hanging[1].cancel()


async def marked(client: RawClient, how: str, marks: str) -> None:
    """Wait until these calls were begun or cancelled at the server."""
    params = {"name": f"busy__{how}_marks", "arguments": {}}
    async with asyncio.timeout(120):
        while sorted(text_of(await client.modern("tools/call", params)).split(",")) != marks.split(","):
            pass


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_t34_whoever_asks_for_completions_or_updates_of_what_they_may_not_is_on_record(
    hub: RunningHub, era: str
) -> None:
    client = RawClient(hub.url + "/mcp", await hub.new_key("ada"))
    await hub.deny("ada", "busy")
    if era == "legacy":
        await client.initialize()
    ask = client.modern if era == "modern" else client.legacy
    value = {"name": "name", "value": "A"}
    for ref in ({"type": "ref/prompt", "name": "busy__greet"}, {"type": "ref/resource", "uri": URI}):
        assert "error" in await ask("completion/complete", {"ref": ref, "argument": value})
    assert "error" in await ask("completion/complete", {"ref": {"type": "ref/prompt", "name": "no"}, "argument": value})
    wanted = [("prompt", "access"), ("resource", "access"), ("prompt", "resolve")]
    if era == "legacy":
        assert "error" in await ask("resources/subscribe", {"uri": URI})
        wanted.append(("resource", "access"))
    blocked = [entry.record for entry in await entries(hub, event="dev.interlock.call_blocked")]
    assert [(record.kind, record.gate) for record in blocked] == wanted
    assert {record.actor for record in blocked} == {"ada"}
    last = hub.hub_app.hub.pipeline.refusals.latest.last("ada")
    assert last is not None
    assert last.gate == wanted[-1][1]
