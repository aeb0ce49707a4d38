"""Threads for functions that block. They are daemons: unlike an executor's, they never delay the end of the process.

A thread cannot be stopped, so a function whose caller gave up keeps its thread. Each principal therefore has half of
the threads at most, and a principal that has none gets one even when all are busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from interlock.process.open_counts import OpenCounts

T = TypeVar("T")
Job: TypeAlias = Callable[[], None]


class Threads:
    """At most `limit` threads, and as many again for principals that have none. They are started when needed.

    Jobs wait in a queue while all threads are busy, or while their principal uses up its share.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = max(1, limit // 2)
        self._pool = _Pool()
        self._busy: OpenCounts[str] = OpenCounts()
        """Threads by principal, also those that run a function whose caller gave up."""
        self._waiting: dict[str, deque[Job]] = {}
        """Jobs of principals that use up their share."""

    async def run(self, function: Callable[[], T], principal_name: str = "") -> T:
        """Call a function in a thread. A cancelled caller drops its result: the function itself runs on."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                if not answer.cancelled():
                    work()
            finally:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._ended, principal_name)

        def work() -> None:
            try:
                value = context.run(function)
            except BaseException as error:  # handed to the task that waits
                # A future cannot hold StopIteration, and GeneratorExit would end the task that waits.
                ends = isinstance(error, StopIteration | GeneratorExit)
                failure = RuntimeError(type(error).__name__) if ends else error
                _settle(loop, answer, lambda: answer.set_exception(failure))
            else:
                _settle(loop, answer, lambda: answer.set_result(value))

        if self._busy[principal_name] >= self._share and self._limit > 1:
            self._waiting.setdefault(principal_name, deque()).append(job)
        else:
            self._begin(job, principal_name)
        return await answer

    def _begin(self, job: Job, principal_name: str) -> None:
        reserve = self._limit if principal_name and not self._busy[principal_name] else 0
        self._pool.submit(job, self._limit + reserve)
        self._busy.add(principal_name)

    def _ended(self, principal_name: str) -> None:
        """A thread of a principal is free: its next job can begin."""
        self._busy.add(principal_name, -1)
        waiting = self._waiting.get(principal_name)
        if waiting:
            self._begin(waiting.popleft(), principal_name)
            if not waiting:
                del self._waiting[principal_name]

    @property
    def idle(self) -> bool:
        """Whether no job runs or waits."""
        return not self._busy and not self._waiting

    def close(self) -> None:
        """End the threads after their queued jobs. A later `run` starts new ones."""
        pool, self._pool = self._pool, _Pool()
        pool.close()


class _Pool:
    """Threads that share one queue of jobs."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, job: Job, limit: int) -> None:
        if not self._idle.acquire(blocking=False) and self._started < limit:
            thread = threading.Thread(target=self._work, name=f"function-{self._started + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The system allows no further thread: one that runs does the job later.
                if not self._started:
                    raise
            else:
                self._started += 1
        self._jobs.put(job)

    def close(self) -> None:
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # Objects of the job must not live on while the thread waits for the next one.
            del job
            self._idle.release()


def _settle(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T], settle: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if answer.done() else settle())
    except RuntimeError:
        # The loop is closed, so no task waits.
        return
