"""Reads large messages in threads beside the loop, in short steps.

A conversation whose message is read here waits for it; all others continue. Peers take turns, so that many messages of
one do not delay those of another. The bytes of waiting messages are bounded, and a peer gets a part of them. Very
large messages have a thread of their own, so that others do not wait behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from interlock.process.fair_threads import FairThreads
from interlock.process.open_counts import OpenCounts
from interlock.process.task_set import TaskSet
from interlock.process.threads import WorkerThreads
from interlock.wire.errors import Fault, internal_error
from interlock.wire.large import CheckedJson
from interlock.wire.large_messages import Outcome, decode_large, decode_large_value
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage

MAX_BUFFERED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of messages that may wait to be read."""
VERY_LARGE: Final = 256 * 1024
"""Larger messages than this are very large: reading one may take a second."""

T = TypeVar("T")


class LargeReading:
    """The reading threads of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._large = _one_thread("large-messages")
        self._very_large = _one_thread("very-large-messages")
        self._tasks = TaskSet()
        self.buffered_bytes = 0
        """Bytes that wait to be read, or are being read."""
        self._held: OpenCounts[object] = OpenCounts()
        """The same, by peer."""

    @classmethod
    def here(cls) -> LargeReading:
        """The reading threads of the running loop."""
        loop = asyncio.get_running_loop()
        found = _READING.get(loop)
        if found is None:
            found = _READING[loop] = cls(loop)
        return found

    def read(
        self, peer: object, data: bytes, limits: Limits, members: int, then: Callable[[Outcome], None]
    ) -> asyncio.Task[None] | None:
        """Read a message or a batch of a peer, and hand it over on the loop. The task may be cancelled: then nothing
        is handed over, and a message that waits is not read. None where too many wait."""
        if not self._has_room(peer, len(data)):
            bad = BadMessage("RESOURCE_EXHAUSTED", "too many large messages wait to be read")
            self._loop.call_soon(then, bad)
            return None
        return self._begin(peer, len(data), self._read(peer, data, limits, members, then))

    async def value(self, peer: object, data: bytes, limits: Limits) -> CheckedJson:
        """Read a JSON value of a peer that is no message. Raises a `Fault`."""
        if not self._has_room(peer, len(data)):
            raise Fault("RESOURCE_EXHAUSTED", "too many large messages wait to be read", retry_after_ms=1000)
        self._hold(peer, len(data))
        try:
            return await self._run(peer, len(data), partial(decode_large_value, data, limits, limits.members))
        finally:
            self._hold(peer, -len(data))

    def work(
        self, peer: object, payload: bytes, change: Callable[[bytes], bytes], then: Callable[[bytes | Fault], None]
    ) -> None:
        """Change a large payload of a peer in a thread, and hand it over on the loop. `change` may raise a `Fault`."""
        self._begin(peer, len(payload), self._change(peer, payload, change, then))

    def _begin(self, peer: object, size: int, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work on so many bytes, which count until it ends. A task that is cancelled may end before it begins."""
        self._hold(peer, size)
        task = self._tasks.begin(work)
        task.add_done_callback(lambda _: self._hold(peer, -size))
        return task

    async def _read(
        self, peer: object, data: bytes, limits: Limits, members: int, then: Callable[[Outcome], None]
    ) -> None:
        outcome: Outcome
        try:
            outcome = await self._run(peer, len(data), partial(decode_large, data, limits, members))
        except Fault as fault:
            outcome = BadMessage(fault.name, fault.message)
        self._loop.call_soon(then, outcome)

    async def _change(
        self, peer: object, payload: bytes, change: Callable[[bytes], bytes], then: Callable[[bytes | Fault], None]
    ) -> None:
        outcome: bytes | Fault
        try:
            outcome = await self._run(peer, len(payload), partial(change, payload))
        except Fault as fault:
            outcome = fault
        self._loop.call_soon(then, outcome)

    async def _run(self, peer: object, size: int, work: Callable[[], T]) -> T:
        """Run work on so many bytes, which are counted already, when its peer has a turn. Raises a `Fault`."""
        threads = self._large if size <= VERY_LARGE else self._very_large
        try:
            return await threads.run(peer, work)
        except Fault:
            raise
        except OSError:
            raise Fault("RESOURCE_EXHAUSTED", "the system allows no more threads") from None
        except Exception as cause:
            self._loop.call_exception_handler({"message": "a large message could not be read", "exception": cause})
            raise internal_error() from None

    def _has_room(self, peer: object, size: int) -> bool:
        """Whether a peer may hold so many bytes more. It may hold as much as is left then, so that another finds room
        although messages of a client that has gone wait here, too."""
        left = MAX_BUFFERED_BYTES - self.buffered_bytes - size
        held = self._held[peer]
        return left >= 0 and (not held or held + size <= left)

    def _hold(self, peer: object, size: int) -> None:
        self.buffered_bytes += size
        self._held.add(peer, size)


def _one_thread(name: str) -> FairThreads:
    return FairThreads(1, name, WorkerThreads(1, name))


_READING: WeakKeyDictionary[asyncio.AbstractEventLoop, LargeReading] = WeakKeyDictionary()
