"""A sink for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Request, Result

OnNotification = Callable[[str, bytes], None]
OnRequest = Callable[[Request], None]


class FutureSink:
    """A sink with a future, whose result is the answer, or whose exception is the fault."""

    __slots__ = ("_on_notification", "_on_request", "future")

    def __init__(self, on_notification: OnNotification, on_request: OnRequest) -> None:
        self._on_notification = on_notification
        self._on_request = on_request
        self.future: asyncio.Future[Result | Failure] = asyncio.get_running_loop().create_future()

    def on_response(self, answer: Result | Failure) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def on_notification(self, method: str, params: bytes) -> None:
        self._on_notification(method, params)

    def on_request(self, request: Request) -> None:
        self._on_request(request)

    def on_lost(self, fault: Fault) -> None:
        if not self.future.done():
            self.future.set_exception(fault)
