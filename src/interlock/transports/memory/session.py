"""The session of a client in the same process, as the service sees it."""

from __future__ import annotations

import time
from typing import Protocol

from interlock.transports.sessions.session import ClientAnswer, SessionChannel, SessionEnd


class SessionLink(Protocol):
    """The client's link."""

    @property
    def pending(self) -> int:
        """Requests that wait for an answer."""

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification that belongs to no request to the client."""

    def ask_in_session(self, method: str, params: bytes) -> ClientAnswer:
        """Pass a request that belongs to no request of the client to it."""

    def end(self, end: SessionEnd) -> None:
        """Close the link: the service ended the session."""


class MemorySession(SessionChannel):
    """Passes the service's messages on to the link."""

    __slots__ = ("_link",)

    transport = "memory"

    def __init__(self, link: SessionLink) -> None:
        super().__init__(time.monotonic())
        self._link = link

    @property
    def open_calls(self) -> int:
        return self._link.pending

    @property
    def open_streams(self) -> int:
        return 1

    def notify(self, method: str, params: bytes) -> None:
        self._link.notify(method, params)

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        return self._link.ask_in_session(method, params)

    def close(self, end: SessionEnd) -> None:
        self._link.end(end)
