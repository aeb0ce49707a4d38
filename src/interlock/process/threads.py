"""A thread pool for systems that may refuse a new thread.

Where no thread can be started, `ThreadPoolExecutor.submit` raises, but one of its threads may run the work later: it
would start a process that nobody owns. The rule here: work that is refused never runs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

DEFAULT_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)
"""The size of asyncio's own default pool."""
REFUSED: Final = "can't start new thread"

P = ParamSpec("P")
T = TypeVar("T")


class WorkerThreads(ThreadPoolExecutor):
    """Threads that start when they are needed. If the system gives no further one, those that run do the work."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._has_thread = False

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises OSError where there is no thread and none can be started."""
        outcome: Future[T] = Future()

        def run() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                result = work(*args, **kwargs)
            except BaseException as cause:
                outcome.set_exception(cause)
            else:
                outcome.set_result(result)

        try:
            super().submit(run)
        except RuntimeError as cause:
            if REFUSED not in str(cause):
                raise
            if not self._has_thread:
                outcome.cancel()
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        self._has_thread = True
        return outcome
