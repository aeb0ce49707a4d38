"""Where the messages of a request go once it streams."""

from __future__ import annotations

import asyncio
from typing import Protocol

from interlock.transports.http.server.http_request import HttpRequest
from interlock.wire.sse import encode_event


class MessageOutlet(Protocol):
    """A stream of messages: that of a session (`streams.SessionStream`), or of one request."""

    def send(self, payload: bytes) -> None:
        """One message, on one line."""

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""

    def end(self) -> None:
        """The last message was sent."""


class RequestStream:
    """An event stream of the stateless era: it ends with its connection, and its events have no ids."""

    __slots__ = ("_http",)

    def __init__(self, http: HttpRequest) -> None:
        self._http = http
        http.begin_stream()

    def send(self, payload: bytes) -> None:
        self._http.send(encode_event(payload))

    def drained(self) -> asyncio.Future[None] | None:
        return self._http.drained()

    def end(self) -> None:
        self._http.end()
