"""Queues frames for participants: one order for all, and a bounded number of writes in each turn of the loop.

Consecutive frames for the same participants are written together, since each write costs a system call. Rule: writing a
frame ends no connection. A participant that does not read gets no further frames. Later turns drop such participants,
one in each turn, because telling the others about it writes frames again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from interlock.rooms.member import RoomMember

AT_ONCE: Final = 256
"""Frames written in one turn of the loop, so that a large topic does not hold it."""
JOINED_BYTES: Final = 16 * 1024
"""Small frames are written together up to this size."""
HELD_S: Final = 0.01
"""While a frame is held, the queue checks slow participants again after this time."""
MAX_WAITING: Final = 64
"""Waiting envelopes at which the room stops reading from senders."""
MAX_FRAMES: Final = 2_048
"""Waiting frames, including the gateway's own, at which nobody else may join: each newcomer adds a frame."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""The same bound in bytes: a participant that comes back is sent the envelopes that it missed."""


class FrameHold:
    """Stops a frame, and all frames behind it, until it is released."""

    __slots__ = ("_release", "is_over")

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self.is_over = False

    def release(self) -> None:
        """Let the frame and those behind it be written."""
        self.is_over = True
        self._release()


class FrameQueue:
    """The frames of one topic that are not written yet."""

    __slots__ = ("_blocked", "_bytes", "_drop", "_position", "_queue", "_scheduled", "_slow", "_written", "delivered")

    def __init__(self, drop: Callable[[RoomMember], None]) -> None:
        self._drop = drop
        """Ends a participant that left too much unread."""
        self._queue: deque[tuple[bytes, Sequence[RoomMember], FrameHold | None]] = deque()
        self._bytes = 0
        """The size of all frames in the queue."""
        self._position = 0
        """Participants that have the first frames of the queue already."""
        self._written: tuple[bytes, int] | None = None
        """The first frames for the same members, joined, and how many they are."""
        self._scheduled = False
        self._blocked: dict[RoomMember, None] = {}
        """Senders that wait."""
        self._slow: dict[RoomMember, None] = {}
        """Participants that missed a frame and are about to be dropped."""
        self.delivered = 0

    @property
    def waiting(self) -> int:
        """Envelopes that wait for their delivery."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether senders have to wait."""
        return len(self._queue) >= MAX_WAITING

    @property
    def is_crowded(self) -> bool:
        """Whether nobody else may join, because too many frames wait for a slow store."""
        return len(self._queue) >= MAX_FRAMES or self._bytes >= MAX_BYTES

    def wait(self, member: RoomMember) -> None:
        """Resume this sender once there is space."""
        self._blocked[member] = None

    def send(self, frame: bytes, members: Sequence[RoomMember]) -> None:
        """Queue a frame for these members, and write it as soon as earlier frames are written."""
        if not self._queue and len(members) <= AT_ONCE:
            self._write(frame, 1, members)
        else:
            self.send_soon(frame, members)

    def send_soon(self, frame: bytes, members: Sequence[RoomMember], hold: FrameHold | None = None) -> None:
        """Write a frame in the next turn, together with those that follow it to the same members."""
        self._queue.append((frame, members, hold))
        self._bytes += len(frame)
        self._schedule()

    def hold(self) -> FrameHold:
        """A hold for the next frame."""
        return FrameHold(self._schedule)

    @property
    def _is_held(self) -> bool:
        return bool(self._queue) and not _may_go(self._queue[0][2])

    def _schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        left = AT_ONCE
        while self._queue and left > 0 and not self._is_held:
            members = self._queue[0][1]
            frames, count = self._written = self._written or self._joined(members)
            piece = members[self._position : self._position + left]
            self._position += len(piece)
            left -= max(1, len(piece))
            if self._position >= len(members):
                for _ in range(count):
                    self._bytes -= len(self._queue.popleft()[0])
                self._position, self._written = 0, None
            self._write(frames, count, piece)
        if not self._is_held:
            self._schedule()
        if self._blocked and not self.full:
            blocked, self._blocked = self._blocked, {}
            for member in blocked:
                if not member.gone:
                    member.connection.resume()

    def _joined(self, members: Sequence[RoomMember]) -> tuple[bytes, int]:
        """The first frames of the queue that go to the same members, as one piece of bytes."""
        found: list[bytes] = []
        size = 0
        for frame, to, hold in self._queue:
            size += len(frame)
            if to is not members or not _may_go(hold) or (found and size > JOINED_BYTES):
                break
            found.append(frame)
        return b"".join(found), len(found)

    def _write(self, frames: bytes, count: int, members: Sequence[RoomMember]) -> None:
        known = self._slow
        if known:
            members = [member for member in members if member not in known]
        slow = [member for member in members if not member.connection.send(frames)]
        self.delivered += count * len(members)
        if slow:
            if not known:
                asyncio.get_running_loop().call_soon(self._drop_next)
            known.update(dict.fromkeys(slow))

    def _drop_next(self) -> None:
        loop = asyncio.get_running_loop()
        if self.full:  # No frame could tell the others about it yet.
            loop.call_later(HELD_S if self._is_held else 0, self._drop_next)
            return
        member = next(iter(self._slow))
        try:
            self._drop(member)
        finally:
            del self._slow[member]
            if self._slow:
                loop.call_soon(self._drop_next)


def _may_go(hold: FrameHold | None) -> bool:
    return hold is None or hold.is_over
