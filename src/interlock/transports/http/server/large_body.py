"""The large body of one request while it is read beside the loop.

A body whose client has gone is not read: it would delay the bodies of clients that wait.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.large_reading import LargeReading
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import Limits


class RequestHandler(Protocol):
    """Answers requests."""

    def handle(self, http: HttpRequest) -> None:
        """Answer a request whose message was read."""


class LargeBody:
    """Has the body of a request read, and hands the request back with its message."""

    def __init__(self, http: HttpRequest, handler: RequestHandler) -> None:
        self._http = http
        self._handler = handler
        self._reading: asyncio.Task[None] | None = None

    def read(self, principal_name: str, limits: Limits) -> None:
        """Read the body when it is its principal's turn, unless the client goes before."""
        http = self._http
        self._reading = LargeReading.here().read(
            principal_name, http.take_body(), limits, limits.members, self._on_read
        )
        http.connection.watch(http, self)

    def on_request_gone(self, http: HttpRequest) -> None:
        """Do not read the body."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

    def _on_read(self, outcome: Outcome) -> None:
        http, self._reading = self._http, None
        if not http.over:
            http.connection.watch(http, None)
            http.replace_body(outcome)
            self._handler.handle(http)
