"""Connections that become those of another protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from http_peer import WaitingService, opened, request

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.upgrades import UpgradedConnection, UpgradeRequest
from interlock.transports.read_queue import ReadQueue
from interlock.transports.requests.pending_authentication import AuthenticationPending
from waiting import until

OFFER = {"Connection": "upgrade", "Upgrade": "websocket"}


class Greeter:
    """A protocol that greets and ends."""

    transport: asyncio.Transport

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        self.transport = transport
        transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello " + rest)
        transport.close()
        forget()

    def sweep(self, now: float) -> None:
        pass

    def shutdown(self) -> None:
        pass


class SlowUpgrader:
    """Knows its callers when the test says so."""

    path = "/ws"

    def __init__(self) -> None:
        self.judged = 0
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def admit(self, request: UpgradeRequest) -> UpgradedConnection:
        self.judged += 1
        if not self.known.done():
            raise AuthenticationPending("not known yet", self.known)
        return Greeter()


async def test_a_connection_is_handed_over_when_its_caller_is_known() -> None:
    upgrader = SlowUpgrader()
    async with opened(WaitingService(), upgrader=upgrader) as place, place.peer() as peer:
        peer.send(request("GET", place.host, OFFER, path="/ws") + b"you")
        await until(lambda: upgrader.judged)
        upgrader.known.set_result(None)
        assert (await peer.rest()).endswith(b"hello you")


async def test_a_connection_that_was_refused_while_its_caller_was_looked_up_is_not_handed_over() -> None:
    upgrader = SlowUpgrader()
    bounds = HttpBounds(head_s=0.2, linger_s=60)
    async with opened(WaitingService(), bounds, upgrader=upgrader) as place, place.peer() as peer:
        peer.send(request("GET", place.host, OFFER, path="/ws"))
        assert (await peer.answer()).status == 408
        upgrader.known.set_result(None)
        await asyncio.wait([upgrader.known])  # after the connection, which waited for it first
        assert await peer.rest() == b""
        assert upgrader.judged == 1


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        self.transport = transport
        transport.set_protocol(self)
        transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        transport.resume_reading()

    def sweep(self, now: float) -> None:
        pass

    def shutdown(self) -> None:
        self.transport.abort()


class EchoUpgrader:
    path = "/ws"

    def admit(self, request: UpgradeRequest) -> UpgradedConnection:
        return Echo()


async def test_t39_an_upgrade_that_is_read_in_a_later_turn_of_the_loop_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent, is_spent = iter([True]), ReadQueue.is_spent

    def spent_at_first(queue: ReadQueue) -> bool:
        measured = is_spent(queue)
        return next(spent, measured)

    monkeypatch.setattr(ReadQueue, "is_spent", spent_at_first)
    async with opened(WaitingService(), upgrader=EchoUpgrader()) as place, place.peer() as peer:
        peer.send(request("GET", place.host, {**OFFER, "Cookie": "x" * 1_500}, path="/ws"))
        async with asyncio.timeout(60):
            assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
        assert next(spent, None) is None, "the head was read in two turns"
        peer.send(b"hello")
        async with asyncio.timeout(60):
            assert await peer.reader.readexactly(5) == b"hello"


class Other(Greeter):
    """A protocol that takes the connection from the first one, as WebSockets do."""

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        transport.set_protocol(asyncio.Protocol())
        super().take_over(transport, rest, forget)


class Upgrader:
    """Admits everybody."""

    path = "/ws"

    def admit(self, request: UpgradeRequest) -> UpgradedConnection:
        return Other()


async def test_answers_before_an_upgrade_are_no_longer_counted_as_unread() -> None:
    async with opened(WaitingService(), upgrader=Upgrader()) as place, place.peer() as peer:
        unread = place.server.listener.unread
        # The system would take the whole answer for a peer whose buffer may grow.
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        peer.send(request("POST", place.host, {}, b"a" * 4_000_000, "/app"))
        await until(lambda: unread.bytes)
        assert (await peer.answer()).status == 200
        peer.send(request("GET", place.host, OFFER, path="/ws"))
        assert b"hello" in await peer.rest()
        assert unread.bytes == 0
