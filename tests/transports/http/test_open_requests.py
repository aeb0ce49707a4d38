"""Requests on streams of revision 2024-11-05, and those that listen: their bytes count while the server keeps them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from http_peer import MODERN, Peer, RunningEndpoint, WaitingService, opened, post, request

from interlock.transports.http.bounds import HttpBounds
from waiting import until

BOUND = 4_000_000
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


class Stream:
    """A client's stream, and a connection on which it posts."""

    def __init__(self, place: RunningEndpoint, principal_name: str, events: Peer, posts: Peer) -> None:
        self._place = place
        self._headers = {"Authorization": f"Bearer {principal_name}"} if principal_name else {}
        self._events = events
        self._posts = posts
        self._path = ""

    async def open(self) -> None:
        self._events.send(request("GET", self._place.host, self._headers, path="/sse"))
        assert (await self._events.answer()).streams
        self._path = (await self._events.event())["data"]

    async def post(self, id: int, size: int, method: str = "tools/call") -> int:
        """Send a request that the service leaves open, with a member of this size. The status of the answer."""
        said = {"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": "slow", "_meta": META}}
        said["params"] = {**said["params"], "junk": "x" * size}  # type: ignore[dict-item]
        self._posts.send(post(self._place.host, said, self._headers, self._path))
        return (await self._posts.answer()).status

    async def answer(self) -> Any:
        return msgspec.json.decode((await self._events.event())["data"])

    async def close(self) -> None:
        await self._events.close()


@contextlib.asynccontextmanager
async def streaming(place: RunningEndpoint, principal_name: str) -> AsyncIterator[Stream]:
    async with place.peer() as events, place.peer() as posts:
        stream = Stream(place, principal_name, events, posts)
        await stream.open()
        yield stream


@pytest.mark.parametrize("principal_name", ["ada", ""], ids=["key", "no key"])
@pytest.mark.parametrize("method", ["tools/call", "tasks/get", "prompts/get"])
async def test_t26_large_requests_count_until_they_are_answered_whatever_their_method(
    method: str, principal_name: str
) -> None:
    size = BOUND // 10
    async with (
        opened(WaitingService(), HttpBounds(held_bytes=BOUND)) as place,
        streaming(place, principal_name) as stream,
        streaming(place, "another") as other,
    ):
        counted = place.endpoint.open_bytes
        for id_ in range(4):
            assert await stream.post(id_, size, method) == 202
        assert 4 * size < counted.bytes < 5 * size, "each counts once, and after its message was taken"
        assert await stream.post(4, size, method) == 503
        assert await other.post(1, size) == 202
        for _ in range(5):
            (await place.service.next()).result(b"{}")
        assert counted.bytes == 0
        assert sorted([(await stream.answer())["id"] for _ in range(4)]) == [0, 1, 2, 3]


async def test_t26_small_requests_count_too_and_are_refused_on_the_stream() -> None:
    size = 40_000
    async with opened(WaitingService(), HttpBounds(held_bytes=10 * size)) as place, streaming(place, "ada") as stream:
        for id_ in range(4):
            assert await stream.post(id_, size) == 202
        assert await stream.post(4, size) == 202
        refused = await stream.answer()
        assert (refused["id"], refused["error"]["data"]["name"]) == (4, "RESOURCE_EXHAUSTED")
        assert place.service.served == 4
        (await place.service.next()).result(b"{}")
        assert (await stream.answer())["id"] == 0
        assert await stream.post(5, size) == 202
        await stream.close()
        await until(lambda: not place.endpoint.open_bytes.bytes)


async def test_a_lone_request_may_be_larger_than_half_of_the_bound() -> None:
    bounds = HttpBounds(held_bytes=BOUND)
    async with opened(WaitingService(), bounds) as place, streaming(place, "ada") as stream:
        assert await stream.post(1, BOUND - 1000) == 202
        (await place.service.next()).result(b"{}")
        assert (await stream.answer())["id"] == 1


async def test_t26_a_request_that_listens_counts_until_its_params_were_read() -> None:
    async with opened(WaitingService()) as place, place.peer() as listening, streaming(place, "ada") as stream:
        params = {"name": "slow", "notifications": {}, "_meta": META, "junk": "x" * 100_000}
        said = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        listening.send(post(place.host, said, headers))
        assert await stream.post(2, 100_000, "subscriptions/listen") == 202
        exchanges = [await place.service.next(), await place.service.next()]
        assert place.server.listener.bodies.bytes > 200_000
        for exchange in exchanges:
            exchange.release_params()
        assert place.server.listener.bodies.bytes == 0
        for exchange in exchanges:
            exchange.result(b"{}")
        assert (await listening.answer()).status == 200
        assert (await stream.answer())["id"] == 2
