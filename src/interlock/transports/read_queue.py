"""Bounds the reading of all connections in each turn of the loop. Connections with more to read take turns.

The first piece of a read is handled at once, so a peer that sends one message at a time never waits here. Connections
with more to read share `TURN_S` of each turn, so a call beside them waits no longer than that.

Every second turn goes to the large body that began first: taking turns, all large bodies would be in memory half read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import thread_time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

TURN_S: Final = 0.001
"""The loop's time for all connections with more to read, in each turn."""
REQUEST_PIECE_BYTES: Final = 1024
"""Bytes of requests that are read between two measurements of the time. They hold no more requests than may wait on a
connection."""


class QueuedReader(Protocol):
    """A connection with bytes that were received and not read yet."""

    def read_on(self) -> None:
        """Read a little more. It adds itself again where that was not all."""

    def give_up(self) -> None:
        """End the connection: reading failed through a defect of ours."""


class ReadQueue:
    """The connections of one loop that have more to read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readers: OrderedDict[QueuedReader, None] = OrderedDict()
        self._large: dict[QueuedReader, int] = {}
        """Readers with a large body, by sequence number. Their number is bounded by the memory for such bodies."""
        self._large_next = False
        self._begun = 0
        self._scheduled = False
        self._ends = 0.0
        """The thread time at which this turn's share is used up; 0 while nobody used any of it."""

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> ReadQueue:
        """The queue of a loop: one object for all of its connections."""
        queue = _QUEUES.get(loop)
        if queue is None:
            queue = _QUEUES[loop] = cls(loop)
        return queue

    def is_spent(self) -> bool:
        """Whether this turn's share is used up. The share begins with the first call in a turn."""
        now = thread_time()
        if not self._ends:
            self._ends = now + TURN_S
            self._schedule()
        return now >= self._ends

    def begin(self) -> int:
        """The sequence number of a body that begins now."""
        self._begun += 1
        return self._begun

    def add(self, reader: QueuedReader, began: int | None = None) -> None:
        """Have a connection read on in a later turn. `began`: the sequence number of its large body."""
        if began is not None:
            self._readers.pop(reader, None)
            self._large[reader] = began
        elif reader not in self._large:
            self._readers[reader] = None
        self._schedule()

    def discard(self, reader: QueuedReader) -> None:
        """The connection reads no more."""
        self._readers.pop(reader, None)
        self._large.pop(reader, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Begin a turn: the readers that wait longest read on, and the large body that began first."""
        self._scheduled = False
        self._ends = 0.0
        while (self._readers or self._large) and not self.is_spent():
            reader = self._next()
            try:
                reader.read_on()
            except Exception as cause:
                self._loop.call_exception_handler({"message": "a connection failed", "exception": cause})
                reader.give_up()

    def _next(self) -> QueuedReader:
        """The reader whose turn it is. It leaves the queue."""
        self._large_next = not self._large_next
        if self._large and (self._large_next or not self._readers):
            reader = min(self._large, key=self._large.__getitem__)
            del self._large[reader]
            return reader
        return self._readers.popitem(last=False)[0]


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadQueue] = WeakKeyDictionary()
