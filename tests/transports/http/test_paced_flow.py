"""Bytes of a connection are read in order, and its socket is read only while nothing stands against it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from interlock.transports.http.paced_reading import PacedReading


class Socket(asyncio.ReadTransport):
    """A transport that knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def pause_reading(self) -> None:
        assert self.is_read, "paused twice"
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read, "resumed twice"
        self.is_read = True

    def is_closing(self) -> bool:
        return False


class Pieces:
    """Reads two bytes at a time, as many pieces as it is allowed."""

    def __init__(self) -> None:
        self.came = b""
        self.allowed = 0
        self.waits = 0

    def read_piece(self, data: bytes, at: int) -> int:
        self.came += data[at : at + 2]
        self.allowed -= 1
        return at + 2

    def must_wait(self) -> bool:
        return self.allowed <= 0

    def on_waiting(self) -> None:
        self.waits += 1


STEPS = st.lists(
    st.one_of(st.binary(min_size=1, max_size=9), st.integers(0, 4), st.sampled_from(["pause", "resume"])), max_size=30
)


@given(STEPS)
def test_bytes_are_read_in_order_and_the_socket_only_where_nothing_waits(steps: list[bytes | int | str]) -> None:
    socket, pieces = Socket(), Pieces()
    flow = PacedReading(socket)
    sent, is_paused = b"", False
    for step in steps:
        if isinstance(step, bytes):
            sent += step
            flow.read(step, pieces)
        elif isinstance(step, int):
            pieces.allowed = step
            if flow.waiting:
                flow.read_waiting(pieces)
        elif step == "pause":
            is_paused = True
            flow.pause_reading()
        else:
            is_paused = False
            flow.resume_reading()
        assert pieces.came + flow.waiting == sent
        assert socket.is_read == (not is_paused and not flow.waiting)
        assert bool(pieces.waits) or not flow.waiting
    flow.resume_reading()
    flow.release()
    assert socket.is_read
    assert flow.waiting == b""


def test_the_first_piece_is_read_at_once_and_the_rest_waits() -> None:
    socket, pieces = Socket(), Pieces()
    flow = PacedReading(socket)
    flow.read(b"abcdef", pieces)
    assert (pieces.came, flow.waiting, socket.is_read, pieces.waits) == (b"ab", b"cdef", False, 1)
    flow.read(b"gh", pieces)
    assert (pieces.came, flow.waiting) == (b"ab", b"cdefgh")
