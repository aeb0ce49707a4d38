"""A bound for reading in each turn of the loop, over all connections: the rest waits, and is read in rotation.

The first piece of a read is handled at once, so a peer that sends one message at a time never waits here. Connections
with more to read share `TURN_S` of each turn. So a call beside them waits for that long, however many they are.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import thread_time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

TURN_S: Final = 0.001
"""The loop's time for all connections with more to read, in each turn."""
PIECE: Final = 1024
"""Bytes that are read before the time is looked at. So few hold no more requests than may wait on a connection."""
FREE_CHUNKS: Final = 4096
MIN_CHUNK: Final = 16
"""A body of more than `FREE_CHUNKS` chunks is refused where they have fewer bytes than this on average."""


class QueuedReader(Protocol):
    """A connection with bytes that were received and not read yet."""

    def read_on(self) -> None:
        """Read a little more. It adds itself again where that was not all."""

    def give_up(self) -> None:
        """End the connection: reading failed, which is a fault of ours."""


class ReadQueue:
    """The connections of one loop that have more to read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readers: OrderedDict[QueuedReader, None] = OrderedDict()
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
        """Whether this turn's share is used up. It begins when somebody first asks."""
        now = thread_time()
        if not self._ends:
            self._ends = now + TURN_S
            self._schedule()
        return now >= self._ends

    def add(self, reader: QueuedReader) -> None:
        """Have a connection read on in a later turn."""
        self._readers[reader] = None
        self._schedule()

    def discard(self, reader: QueuedReader) -> None:
        """The connection reads no more."""
        self._readers.pop(reader, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """A turn begins: those that wait longest read on."""
        self._scheduled = False
        self._ends = 0.0
        while self._readers and not self.is_spent():
            reader, _ = self._readers.popitem(last=False)
            try:
                reader.read_on()
            except Exception as cause:
                self._loop.call_exception_handler({"message": "a connection failed", "exception": cause})
                reader.give_up()


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadQueue] = WeakKeyDictionary()
