"""Answers that nobody reads have a bound for each principal and over all connections.

`test_unread_order.py` has the order in which connections are cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Iterator

import pytest
from http_peer import PATIENCE_S, RunningEndpoint, WaitingService, modern, opened, request

from interlock.transports.exchange import Exchange
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.listener import AcceptedConnection
from waiting import until

LARGE = 8_000_000
BOUND = 20_000_000


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param and sys.platform == "win32":
        pytest.skip("there is no uvloop")
    return "asyncio", {"use_uvloop": request.param}


class LazyClients:
    """Clients that call, and read when the test says so."""

    def __init__(self, place: RunningEndpoint, stack: contextlib.ExitStack) -> None:
        self._place = place
        self._stack = stack
        self.loop = asyncio.get_running_loop()

    async def call(
        self, principal_name: str = "anyone", *, streams: bool = False
    ) -> tuple[socket.socket, AcceptedConnection]:
        """A client with a large answer that it did not read, and its connection."""
        lazy, connection, exchange = await self.ask(principal_name)
        if streams:
            exchange.notify("notifications/message", b"{}")
        exchange.result(b'"%b"' % (b"a" * LARGE))
        return lazy, connection

    async def ask(self, principal_name: str) -> tuple[socket.socket, AcceptedConnection, Exchange]:
        """A client whose request waits, its connection and the request."""
        before = set(self._place.server.listener.connections)
        lazy = await self._send(modern(self._place.host, "slow", Authorization=f"Bearer {principal_name}"))
        exchange = await self._place.service.next()
        [connection] = self._place.server.listener.connections - before
        return lazy, connection, exchange

    async def call_app(self, key: str, size: int) -> None:
        """A client of the app, whose keys the endpoint does not know, with a large answer that it did not read."""
        listener = self._place.server.listener
        before, closed = set(listener.connections), listener.unread.closed
        body = b"a" * size
        await self._send(request("POST", self._place.host, {"Authorization": f"Bearer {key}"}, body, "/app"))

        def answered() -> bool:
            new = listener.connections - before
            return listener.unread.closed > closed or any(each.transport.get_write_buffer_size() for each in new)

        await until(answered)

    async def _send(self, asked: bytes) -> socket.socket:
        lazy = self._stack.enter_context(socket.socket())
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        await self.loop.sock_connect(lazy, ("127.0.0.1", self._place.server.port))
        await self.loop.sock_sendall(lazy, asked)
        return lazy


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "stream"])
async def test_t37_unread_answers_of_one_peer_have_a_bound(
    stack: contextlib.ExitStack, caplog: pytest.LogCaptureFixture, streams: bool
) -> None:
    async with opened(WaitingService(), HttpBounds(unread_bytes_per_peer=BOUND, stall_s=PATIENCE_S)) as place:
        clients, listener = LazyClients(place, stack), place.server.listener
        with caplog.at_level(logging.WARNING):
            for _ in range(12):
                await clients.call(streams=streams)
                assert sum(each.transport.get_write_buffer_size() for each in _open(listener.connections)) <= BOUND
        await until(lambda: len(listener.connections) == 12 - listener.unread.closed)
        assert listener.unread.closed > 0
        assert sum("bytes unread" in line for line in caplog.messages) == listener.unread.closed
    assert listener.unread.bytes == 0


async def test_t37_unread_answers_of_all_have_a_bound_and_the_peer_with_most_loses(
    stack: contextlib.ExitStack,
) -> None:
    async with opened(WaitingService(), HttpBounds(unread_bytes=BOUND, stall_s=PATIENCE_S)) as place:
        clients, listener = LazyClients(place, stack), place.server.listener
        _, modest = await clients.call("modest")
        for _ in range(8):
            await clients.call("greedy")
            assert sum(each.transport.get_write_buffer_size() for each in _open(listener.connections)) <= BOUND
        assert listener.unread.closed > 0
        assert not modest.transport.is_closing()


async def test_t37_keys_that_nobody_checked_are_one_peer(stack: contextlib.ExitStack) -> None:
    async with opened(WaitingService(), HttpBounds(unread_bytes=BOUND, stall_s=PATIENCE_S)) as place:
        clients, listener = LazyClients(place, stack), place.server.listener
        _, admitted = await clients.call("admitted")
        for number in range(8):
            await clients.call_app(f"made-up-{number}", LARGE * 3 // 4)
        assert listener.unread.closed > 0
        assert not admitted.transport.is_closing()


async def test_a_client_that_reads_late_gets_its_whole_answer(stack: contextlib.ExitStack) -> None:
    async with opened(WaitingService(), HttpBounds(unread_bytes_per_peer=BOUND, stall_s=PATIENCE_S)) as place:
        lazy, _ = await LazyClients(place, stack).call()
        assert place.server.listener.unread.bytes > 0
        received = 0
        while received < LARGE:
            received += len(await asyncio.get_running_loop().sock_recv(lazy, 1 << 20))
        await until(lambda: place.server.listener.unread.bytes == 0)
        assert place.server.listener.unread.closed == 0


async def test_a_client_that_never_fell_far_behind_is_not_counted_once_it_has_read(stack: contextlib.ExitStack) -> None:
    async with opened(WaitingService(), HttpBounds(linger_s=0.2)) as place:
        clients, unread = LazyClients(place, stack), place.server.listener.unread
        lazy, connection, exchange = await clients.ask("anyone")
        while not connection.transport.get_write_buffer_size():
            exchange.notify("notifications/message", b'"%b"' % (b"a" * 10_000))
            await asyncio.sleep(0)
        await until(lambda: unread.bytes > 0)
        while connection.transport.get_write_buffer_size():
            await clients.loop.sock_recv(lazy, 1 << 20)
        await until(lambda: unread.bytes == 0)


def _open(connections: set[AcceptedConnection]) -> list[AcceptedConnection]:
    return [each for each in connections if not each.transport.is_closing()]
