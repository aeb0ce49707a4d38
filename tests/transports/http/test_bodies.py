"""The memory for large bodies is shared: however much one caller sends, some is left for the next."""

from __future__ import annotations

import contextlib

import pytest
from http_peer import RunningEndpoint, WaitingService, modern, opened, post, reading_delayed

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.large_reading import LargeReading
from interlock.transports.request_bytes import COPIES
from waiting import until

SIZE = 100_000
BOUND = 10 * SIZE


def large(place: RunningEndpoint, name: str, key: str, path: str = "/mcp") -> bytes:
    """A request with a large body; without a key for an empty one."""
    head, _, body = modern(place.host, name, Authorization=f"Bearer {key}" if key else "").partition(b"\r\n\r\n")
    if path != "/mcp":
        return post(place.host, b" " * SIZE, {"Authorization": f"Bearer {key}"} if key else {}, path)
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % SIZE, b"", body.ljust(SIZE)])


async def fill(place: RunningEndpoint, stack: contextlib.AsyncExitStack, sent: bytes) -> int:
    """Send the same on one connection after the other until it is refused. The number of those that are held."""
    listener = place.server.listener
    for number in range(BOUND // SIZE + 1):
        before = listener.bodies.bytes
        peer = await stack.enter_async_context(place.peer())
        peer.send(sent)
        await until(lambda before=before: listener.refused or listener.bodies.bytes >= before + SIZE - 1)  # type: ignore[misc]
        if listener.refused:
            assert (await peer.answer()).status == 503
            return number
    return BOUND // SIZE


@pytest.mark.parametrize("path", ["/mcp", "/app"])
@pytest.mark.parametrize("greedy", ["greedy", ""], ids=["key", "no key"])
async def test_t36_unfinished_bodies_of_one_caller_leave_room_for_others(path: str, greedy: str) -> None:
    async with (
        opened(WaitingService(), HttpBounds(held_bytes=BOUND)) as place,
        contextlib.AsyncExitStack() as stack,
        place.peer() as other,
    ):
        assert await fill(place, stack, large(place, "slow", greedy, path)[:-1]) == BOUND // SIZE // 2
        for _ in range(3):
            other.send(large(place, "echo", "modest", path))
            assert (await other.answer()).status == 200


async def test_t36_unanswered_requests_of_callers_leave_room_for_others() -> None:
    async with (
        opened(WaitingService(), HttpBounds(held_bytes=BOUND)) as place,
        contextlib.AsyncExitStack() as stack,
        place.peer() as other,
    ):
        assert await fill(place, stack, large(place, "slow", "greedy")) == BOUND // SIZE // 2
        place.server.listener.refused = 0
        assert await fill(place, stack, large(place, "slow", "greedy as well")) == 2
        other.send(large(place, "echo", "modest"))
        assert (await other.answer()).status == 200


async def test_bodies_leave_nothing_in_the_count_when_they_are_answered_or_their_clients_go() -> None:
    async with opened(WaitingService(), HttpBounds(held_bytes=BOUND)) as place:
        bodies = place.server.listener.bodies
        async with place.peer() as peer:
            for key in ("one", "two", ""):
                peer.send(large(place, "echo", key))
                assert (await peer.answer()).status == 200
                assert bodies.bytes == 0
            peer.send(large(place, "slow", "one")[:-1])
            await until(lambda: bodies.bytes)
        await until(lambda: not bodies.bytes)
        async with contextlib.AsyncExitStack() as stack:
            assert await fill(place, stack, large(place, "slow", "one")) == BOUND // SIZE // 2


async def test_t36_a_large_body_whose_client_has_gone_is_not_read(place: RunningEndpoint) -> None:
    with reading_delayed() as go_on:
        async with place.peer() as gone:
            gone.send(large(place, "echo", "ada"))
            await until(lambda: LargeReading.here().buffered_bytes == SIZE)
        await until(lambda: LargeReading.here().buffered_bytes == 0)
        async with place.peer() as there:
            there.send(large(place, "echo", "ada"))
            await until(lambda: LargeReading.here().buffered_bytes == SIZE)
            go_on.set()
            assert (await there.answer()).status == 200
    assert (place.service.served, LargeReading.here().buffered_bytes) == (1, 0)


def small(place: RunningEndpoint, name: str, key: str) -> bytes:
    """A request whose body is not large."""
    head, _, body = modern(place.host, name, Authorization=f"Bearer {key}").partition(b"\r\n\r\n")
    body = body.replace(b'"params":{', b'"params":{"arguments":{"x":"%b"},' % (b"x" * 10_000))
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


async def test_open_requests_with_small_bodies_have_a_bound_of_their_own_and_leave_room_for_others() -> None:
    bounds = HttpBounds(held_bytes=BOUND, open_small_bytes=8 * COPIES * 10_500)
    async with (
        opened(WaitingService(), bounds) as place,
        contextlib.AsyncExitStack() as stack,
        place.peer() as other,
    ):
        assert await fill(place, stack, large(place, "slow", "greedy")) == BOUND // SIZE // 2
        open_peers = [await stack.enter_async_context(place.peer()) for _ in range(4)]
        for peer in open_peers:
            peer.send(small(place, "slow", "greedy"))
        asked = [await place.service.next() for _ in range(BOUND // SIZE // 2 + len(open_peers))]
        other.send(small(place, "echo", "greedy"))
        refused = (await other.answer()).json["error"]
        assert (refused["data"]["name"], refused["data"]["retry_after_ms"]) == ("RESOURCE_EXHAUSTED", 1000)
        other.send(small(place, "echo", "modest"))
        assert (await other.answer()).json["result"] == {"said": "echo"}
        asked[-1].result(b"{}")
        for _ in range(3):
            other.send(small(place, "echo", "greedy"))
            assert (await other.answer()).json["result"] == {"said": "echo"}


async def test_the_only_body_of_a_caller_may_be_larger_than_half_of_the_bound() -> None:
    async with opened(WaitingService(), HttpBounds(held_bytes=SIZE + SIZE // 2)) as place, place.peer() as peer:
        peer.send(large(place, "echo", "alone"))
        assert (await peer.answer()).status == 200


def test_bounds_have_space_for_the_largest_message_that_is_allowed() -> None:
    bounds, size = HttpBounds(), 100 * 1024 * 1024
    larger = bounds.for_messages(size)
    assert min(larger.held_bytes, larger.unread_bytes_per_peer) == 2 * size
    assert larger.unread_bytes == 4 * size
    assert bounds.for_messages(1024) == bounds
