"""A few threads for functions that block. They never hold up the end of the process, as an executor's would."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """At most `limit` threads, made when needed. What comes when all are busy waits in line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._made = 0
        self._idle = threading.Semaphore(0)

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread. If the waiting task is cancelled the function runs on, for nobody."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            if answer.cancelled():
                return
            try:
                value = context.run(function)
            except BaseException as error:  # reported to the task that waits
                failure = RuntimeError(str(error)) if isinstance(error, StopIteration) else error
                _tell(loop, answer, None, failure)
            else:
                _tell(loop, answer, value, None)

        if not self._idle.acquire(blocking=False) and self._made < self._limit:
            self._made += 1
            threading.Thread(target=self._work, name=f"function-{self._made}", daemon=True).start()
        self._jobs.put(job)
        return await answer

    def close(self) -> None:
        """Let the threads go once they are through with what they do."""
        for _ in range(self._made):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job
            self._idle.release()


def _tell(
    loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T], value: T | None, error: BaseException | None
) -> None:
    def settle() -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        return
