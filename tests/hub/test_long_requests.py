"""Requests that wait for long, with a large member that nobody needs: the hub keeps none of it, and ends every wait
with its client."""

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
from interlock.hub.handlers.host_methods import MAX_OPEN_REQUESTS
from interlock.transports.request_bytes import RequestBytes
from interlock.web.control import ControlSocket

from .host_client import HOMES, HOST
from .host_scene import GENERAL, between, drive, heard
from .running_hub import MODERN, PREFIX, RawClient, RunningHub, child, running_hub, until
from .task_scene import served
from .task_server import Jobs

JUNK = "x" * 300_000


class LegacyClient:
    """A client with a session on a stream of revision 2024-11-05, or on the control socket, written by hand."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, post: RawClient | None = None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._post = post
        self._ids = 0

    async def send(self, method: str, **params: Any) -> int:
        """A request; its id."""
        self._ids += 1
        await self.say({"id": self._ids, "method": method, "params": params})
        return self._ids

    async def say(self, message: dict[str, Any]) -> None:
        said = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if self._post is None:
            self._writer.write(said + b"\n")
            await self._writer.drain()
        else:
            status, _, _ = await self._post.post(said, {})
            assert status == 202

    async def answer(self, id: int) -> Any:
        """The answer to a request; messages before it are passed over."""
        while True:
            line = (await asyncio.wait_for(self._reader.readline(), 60)).removeprefix(b"data: ").strip()
            message = json.loads(line) if line.startswith(b"{") else {}
            if "method" in message and "id" in message:
                await self.say({"id": message["id"], "result": {"results": []}})
            elif message.get("id") == id:
                return message

    async def result(self, method: str, **params: Any) -> Any:
        answer = await self.answer(await self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def begin(self, capabilities: Any) -> None:
        info = {"name": "legacy", "version": "1"}
        await self.result("initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=info)
        await self.say({"method": "notifications/initialized"})


@contextlib.asynccontextmanager
async def over_sse(hub: RunningHub, key: str, capabilities: Any) -> AsyncIterator[LegacyClient]:
    host, _, port = hub.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET /sse HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {key}\r\naccept: text/event-stream"
    writer.write(f"{head}\r\n\r\n".encode())
    path = (await reader.readuntil(b"\n\n")).split(b"data: ")[1].strip().decode()
    made = LegacyClient(reader, writer, RawClient(hub.url + path, key))
    await made.begin(capabilities)
    yield made
    writer.close()


@contextlib.asynccontextmanager
async def over_socket(path: Path, key: str, capabilities: Any) -> AsyncIterator[LegacyClient]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    made = LegacyClient(reader, writer)
    await made.result("interlock/hello", role="stdio", key=key)
    await made.begin(capabilities)
    yield made
    writer.close()


@contextlib.asynccontextmanager
async def connected(hub: RunningHub, way: str, capabilities: Any) -> AsyncIterator[tuple[LegacyClient, RequestBytes]]:
    """A client, and the count of its open requests."""
    if way == "sse":
        async with over_sse(hub, hub.key("mine"), capabilities) as legacy:
            yield legacy, hub.endpoint.open_bytes
        return
    counted = RequestBytes()
    # A socket's address has little room, and a test's own folder a long name.
    with tempfile.TemporaryDirectory(prefix="il") as home:
        control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None), None, counted)
        await control.listen(Path(home) / "s")
        try:
            async with over_socket(Path(home) / "s", hub.key("mine"), capabilities) as legacy:
                yield legacy, counted
        finally:
            await control.close()


@pytest.mark.parametrize("way", ["sse", "socket"])
async def test_t26_requests_that_wait_for_a_task_keep_none_of_their_params(tmp_path: Path, way: str) -> None:
    jobs = Jobs()
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub:
        tasks = hub.hub_app.hub.tasks
        async with connected(hub, way, {}) as (legacy, counted):
            begun = await legacy.result("tools/call", name="t__work", arguments={"mark": "a"}, task={"ttl": 600_000})
            waits = [await legacy.send("tasks/result", taskId=begun["task"]["taskId"], junk=JUNK) for _ in range(8)]
            await until(lambda: tasks.open_requests == 8)
            await until(lambda: not counted.bytes)
            jobs.go.set()
            for id_ in waits:
                assert (await legacy.answer(id_))["result"]["content"][0]["text"] == "a worked"
            jobs.go.clear()
            begun = await legacy.result("tools/call", name="t__work", arguments={"mark": "b"}, task={"ttl": 600_000})
            await legacy.send("tasks/result", taskId=begun["task"]["taskId"], junk=JUNK)
            await until(lambda: tasks.open_requests == 1)
        await until(lambda: not tasks.open_requests)
        assert jobs.ended == {}, "the task itself goes on"
        jobs.go.set()


async def test_t121_a_wait_for_a_result_ends_without_it_where_the_tool_was_denied_meanwhile(tmp_path: Path) -> None:
    jobs = Jobs()
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub:
        async with connected(hub, "sse", {}) as (legacy, _):
            begun = await legacy.result("tools/call", name="t__work", arguments={"mark": "a"}, task={"ttl": 600_000})
            waits = await legacy.send("tasks/result", taskId=begun["task"]["taskId"])
            await until(lambda: hub.hub_app.hub.tasks.open_requests == 1)
            await hub.deny("mine", "t", "work")
            unknown = await legacy.answer(await legacy.send("tasks/get", taskId=begun["task"]["taskId"]))
            jobs.go.set()
            refused = await legacy.answer(waits)
            assert refused["error"]["message"] == unknown["error"]["message"]
            assert "worked" not in json.dumps(refused)


@pytest.mark.parametrize("way", ["sse", "socket"])
async def test_t26_requests_of_a_host_are_bounded_and_end_with_their_client(tmp_path: Path, way: str) -> None:
    async with between(tmp_path, "a") as hub:
        async with connected(hub, way, HOMES["experimental"](HOST)) as (legacy, counted):
            await legacy.say({"method": "featureSets/update", "params": {"enabled": ["a.note.talk"]}})
            await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})

            async def is_listed() -> bool:
                return bool((await legacy.result("channels/list"))["channels"])

            await until(is_listed)
            await drive(hub, "a", "reply", method="channels/publish")
            said = {"conversationId": "c1", "channelId": "a/chat:#general"}
            for _ in range(MAX_OPEN_REQUESTS):
                await legacy.send("channels/publish", content="x" * 5_000, **said)
            refused = await legacy.answer(await legacy.send("channels/publish", content="one more", **said))
            assert refused["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
            assert counted.bytes > MAX_OPEN_REQUESTS * 5_000

            async def are_sent() -> bool:
                return len(await heard(hub, "a", "channels/publish")) == MAX_OPEN_REQUESTS

            await until(are_sent)
        await until(lambda: not counted.bytes)

        async def are_withdrawn() -> bool:
            return len(await heard(hub, "a", "notifications/cancelled")) == MAX_OPEN_REQUESTS

        await until(are_withdrawn)


async def test_t26_a_stream_that_listens_keeps_none_of_its_params(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        host, _, port = hub.url.removeprefix("http://").partition(":")
        meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta, "junk": JUNK}
        said = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {"host": f"{host}:{port}", "content-type": "application/json"}
        headers["accept"] = "application/json, text/event-stream"
        headers |= {"authorization": f"Bearer {hub.key('mine')}", "mcp-protocol-version": MODERN}
        headers |= {"mcp-method": "subscriptions/listen", "content-length": str(len(json.dumps(said)))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n{json.dumps(said)}".encode())
        await asyncio.wait_for(reader.readuntil(b"notifications/subscriptions/acknowledged"), 60)
        assert hub.listener.bodies.bytes == 0
        writer.close()
