"""Reads large messages in threads beside the loop, in short steps.

A conversation whose message is read here waits for it; all others continue. The number of waiting messages is bounded.
Very large messages have a thread of their own, so that others do not wait behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from interlock.process.threads import WorkerThreads
from interlock.wire.errors import INTERNAL_ERROR, Fault, internal_error
from interlock.wire.large import CheckedJson
from interlock.wire.large_messages import Outcome, decode_large, decode_large_value
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage

MAX_BUFFERED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of messages that may wait to be read."""
VERY_LARGE: Final = 256 * 1024
"""Larger messages than this are very large: reading one may take a second."""

P = ParamSpec("P")
T = TypeVar("T")


class LargeReading:
    """The reading threads of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._large = WorkerThreads(1, "large-messages")
        self._very_large = WorkerThreads(1, "very-large-messages")
        self.buffered_bytes = 0
        """Bytes that wait to be read, or are being read."""

    @classmethod
    def here(cls) -> LargeReading:
        """The reading threads of the running loop."""
        loop = asyncio.get_running_loop()
        found = _READING.get(loop)
        if found is None:
            found = _READING[loop] = cls(loop)
        return found

    def read(self, data: bytes, limits: Limits, members: int, then: Callable[[Outcome], None]) -> None:
        """Read a message or a batch, and hand it over on the loop."""
        if self.buffered_bytes + len(data) > MAX_BUFFERED_BYTES:
            bad = BadMessage("RESOURCE_EXHAUSTED", "too many large messages wait to be read")
            self._loop.call_soon(then, bad)
            return

        def done(future: Future[Outcome]) -> None:
            self._loop.call_soon_threadsafe(self._done, size, future, then)

        size = len(data)
        self.buffered_bytes += size
        self._submit(size, decode_large, data, limits, members).add_done_callback(done)

    async def value(self, data: bytes, limits: Limits) -> CheckedJson:
        """Read a JSON value that is no message. Raises a `Fault`."""
        if self.buffered_bytes + len(data) > MAX_BUFFERED_BYTES:
            raise Fault("RESOURCE_EXHAUSTED", "too many large messages wait to be read", retry_after_ms=1000)
        self.buffered_bytes += len(data)
        thread = self._thread_for(len(data))
        try:
            return await self._loop.run_in_executor(thread, decode_large_value, data, limits, limits.members)
        finally:
            self.buffered_bytes -= len(data)

    def work(self, payload: bytes, change: Callable[[bytes], bytes], then: Callable[[bytes | Fault], None]) -> None:
        """Change a large payload in a thread, and hand it over on the loop. `change` may raise a `Fault`."""

        def done(future: Future[bytes]) -> None:
            self._loop.call_soon_threadsafe(self._changed, len(payload), future, then)

        self.buffered_bytes += len(payload)
        self._submit(len(payload), change, payload).add_done_callback(done)

    def _thread_for(self, size: int) -> WorkerThreads:
        return self._large if size <= VERY_LARGE else self._very_large

    def _submit(self, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand work on so many bytes to a thread. The work fails where the system allows no more threads."""
        try:
            return self._thread_for(size).submit(work, *args, **kwargs)
        except OSError:
            refused: Future[T] = Future()
            refused.set_exception(Fault("RESOURCE_EXHAUSTED", "the system allows no more threads"))
            return refused

    def _changed(self, size: int, future: Future[bytes], then: Callable[[bytes | Fault], None]) -> None:
        self.buffered_bytes -= size
        outcome: bytes | Fault
        try:
            outcome = future.result()
        except Fault as fault:
            outcome = fault
        except Exception as cause:
            self._loop.call_exception_handler({"message": "a large message could not be changed", "exception": cause})
            outcome = internal_error()
        then(outcome)

    def _done(self, size: int, future: Future[Outcome], then: Callable[[Outcome], None]) -> None:
        self.buffered_bytes -= size
        try:
            outcome = future.result()
        except Fault as fault:
            outcome = BadMessage(fault.name, fault.message)
        except Exception as cause:
            self._loop.call_exception_handler({"message": "a large message could not be read", "exception": cause})
            outcome = BadMessage("INTERNAL_ERROR", INTERNAL_ERROR)
        then(outcome)


_READING: WeakKeyDictionary[asyncio.AbstractEventLoop, LargeReading] = WeakKeyDictionary()
