"""Streams of the HTTP server half: events in order, few system calls, and waiting senders woken."""

from __future__ import annotations

import asyncio

import pytest

from interlock.transports.batching import Batching
from interlock.transports.drain import Drain
from interlock.transports.http.server.event_writer import EventWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Written(asyncio.WriteTransport):
    """Keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing


async def test_the_first_event_of_a_turn_is_written_at_once_and_the_others_together() -> None:
    writer, transport = EventWriter(asyncio.get_running_loop(), Batching()), Written()
    for event in (b"a", b"b", b"c"):
        writer.write(transport, event)
    assert transport.writes == [b"a"]
    await asyncio.sleep(0)
    assert transport.writes == [b"a", b"bc"]
    writer.write(transport, b"d")
    assert transport.writes[2:] == [b"d"], "the next turn begins at once again"
    writer.write(transport, b"e")
    writer.flush(transport)
    assert transport.writes[2:] == [b"d", b"e"], "whatever follows comes after them"
    await asyncio.sleep(0)
    writer.write(transport, b"f")
    writer.write(transport, b"g")
    transport.closing = True
    await asyncio.sleep(0)
    assert transport.writes[4:] == [b"f"]


async def test_everyone_who_waits_for_a_reader_is_woken_once_it_reads() -> None:
    drain = Drain()
    first, second = drain.wait(), drain.wait()
    assert first is second
    drain.release()
    await first
    drain.release()
    assert not drain.wait().done(), "who waits later waits for the next time"
