"""A few threads for functions that block. They never hold up the end of the process, as an executor's would."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Job: TypeAlias = Callable[[], None]


class Threads:
    """At most `limit` threads, made when needed. What comes when all are busy waits in line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._crew = _Crew()

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
            except BaseException as error:  # handed to the task that waits
                # Of these a future cannot hold the one, and the task that waits would take the other for its own end.
                ends = isinstance(error, StopIteration | GeneratorExit)
                failure = RuntimeError(type(error).__name__) if ends else error
                _tell(loop, answer, lambda: answer.set_exception(failure))
            else:
                _tell(loop, answer, lambda: answer.set_result(value))

        self._crew.take(job, self._limit)
        return await answer

    def close(self) -> None:
        """Let the threads go once they are through with what they do. More are made if more comes."""
        crew, self._crew = self._crew, _Crew()
        crew.dismiss()


class _Crew:
    """Threads that share one line of jobs."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._made = 0

    def take(self, job: Job, limit: int) -> None:
        if not self._idle.acquire(blocking=False) and self._made < limit:
            self._made += 1
            threading.Thread(target=self._work, name=f"function-{self._made}", daemon=True).start()
        self._jobs.put(job)

    def dismiss(self) -> None:
        for _ in range(self._made):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # What the job held must not live on while the thread waits for the next.
            del job
            self._idle.release()


def _tell(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T], settle: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if answer.done() else settle())
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        return
