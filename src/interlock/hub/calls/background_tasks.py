"""Background tasks that requests begin. The hub keeps them until they are done, and cancels them when it closes.

The hub answers the request of a task that ended without an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from interlock.hub.calls.call import Call, Caller
from interlock.hub.sessions.session import Exchange
from interlock.wire.errors import Fault, internal_error

Serve = Callable[[Exchange, Caller], None]
"""Answers a request, now or later. A `Fault` that it raises is the answer."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


async def while_wanted(exchange: Exchange, work: Coroutine[Any, Any, T]) -> T:
    """The result of work for a request. The task ends, with the work, when the client no longer wants the answer."""
    if not exchange.open:
        work.close()
        raise asyncio.CancelledError
    exchange.on_cancel = partial(_cancel, asyncio.current_task())
    return await work


def _cancel(task: asyncio.Task[object] | None, reason: str) -> None:
    if task is not None:
        task.cancel(reason)


class BackgroundTasks:
    """The tasks that are running."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], Exchange | Call | None] = {}
        """Each with the request that it serves."""
        self._closing = False

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, object], request: Exchange | Call | None) -> None:
        """Run a coroutine in the background. If it raises, that is logged, and the request that it serves fails.

        A `Fault` that it raises is the answer. `request` is None for work that no request waits for.
        """
        task = asyncio.ensure_future(work)
        self._tasks[task] = request
        task.add_done_callback(self._done)

    async def settled(self) -> None:
        """Wait until no task is running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def stateless_requests(self) -> list[Exchange]:
        """The open requests without a session that tasks serve. Calls are known at their principals."""
        requests = (request for request in self._tasks.values() if request is not None)
        found = (request for request in requests if not isinstance(request, Call))
        return [exchange for exchange in found if exchange.session is None and exchange.open]

    def cancel(self) -> None:
        """Cancel the running tasks."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel the running tasks, and wait until they are done."""
        self._closing = True
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[object]) -> None:
        request = self._tasks.pop(task, None)
        cause: BaseException | None
        try:
            cause = task.exception()
        except asyncio.CancelledError:
            # A new exception: the traceback of the raised one refers to the task.
            cause = asyncio.CancelledError()
        if cause is None:
            return
        # The exchange of a call may have been replaced since the task began.
        exchange = request.exchange if isinstance(request, Call) else request
        waits = exchange is not None and exchange.open
        if isinstance(cause, Fault):
            fault = cause
        elif self._closing and isinstance(cause, asyncio.CancelledError):
            fault = Fault("SERVER_DRAINING", "the hub is closing", retry_after_ms=2000)
        else:
            fault = internal_error()
            if waits or not isinstance(cause, asyncio.CancelledError):
                _log.error("a background task failed", exc_info=cause)
        if exchange is not None and waits:
            exchange.fail(fault)
