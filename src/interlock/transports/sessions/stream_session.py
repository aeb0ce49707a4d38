"""The session of a client that has one stream for everything, as the service sees it."""

from __future__ import annotations

import time
from typing import Protocol

from interlock.transports.sessions.session import ClientAnswer, SessionChannel, SessionEnd


class SessionStream(Protocol):
    """The stream to the client."""

    @property
    def pending(self) -> int:
        """Requests of the client that have no answer yet."""

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification that belongs to no request, unless the client is not keeping up."""

    def ask_in_session(self, method: str, params: bytes) -> ClientAnswer:
        """Send a request that belongs to the session, not to a request of the client. Raises a `Fault`."""

    def end(self, end: SessionEnd) -> None:
        """The session ended: cancel and answer the open requests, and close the stream."""


class StreamSession(SessionChannel):
    """Passes the service's messages on to the stream."""

    __slots__ = ("_stream", "transport")

    def __init__(self, stream: SessionStream, transport: str) -> None:
        super().__init__(time.monotonic())
        self._stream = stream
        self.transport = transport

    @property
    def open_calls(self) -> int:
        return self._stream.pending

    @property
    def open_streams(self) -> int:
        return 1

    def notify(self, method: str, params: bytes) -> None:
        self._stream.notify(method, params)

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        return self._stream.ask_in_session(method, params)

    def close(self, end: SessionEnd) -> None:
        self._stream.end(end)
