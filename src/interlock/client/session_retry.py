"""Sends a request that failed because its session was lost once more, in the new session, if it may be sent twice."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from interlock.transports.link import Link, Outgoing, Sink
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

HELD: Final = 4_096
"""Most requests that may wait for a new session."""


class Reopener(Protocol):
    """The connection that the request was sent on."""

    link: Link
    chances: dict[Id, SessionRetry]
    """Requests that were, or are about to be, sent again: by the handle that the caller knows."""

    def reopen(self, lost: str) -> asyncio.Task[None] | None:
        """Open a new session in the place of a lost one."""

    def cancel(self, handle: Id, reason: str = "") -> None:
        """Stop waiting, and tell the server."""


class SessionRetry:
    """Wraps the sink of a request. The handle that the caller got stays valid, though the request gets another id."""

    __slots__ = ("_again", "_connection", "_late", "_outgoing", "_sink", "current", "handle")

    def __init__(self, connection: Reopener, outgoing: Outgoing, sink: Sink) -> None:
        self._connection = connection
        self._outgoing = outgoing
        self._sink = sink
        self._again = outgoing.again
        self.current: Id | None = None
        """The id that the request has now; None while it waits for the new session."""
        self._late: asyncio.TimerHandle | None = None
        self.handle: Id = f"held-{id(self)}"

    def adopt(self, handle: Id, session: str) -> bool:
        """Take over a request that failed because its session is gone. False if it is not sent again."""
        self.handle = handle
        task = self._connection.reopen(session)
        if task is None or not self._again:
            return False
        self._again = False
        self._hold(task)
        return True

    def wait(self, reopening: asyncio.Task[None]) -> Id:
        """Send a request in the session that is being opened. Returns its handle. Raises RESOURCE_EXHAUSTED."""
        if len(self._connection.chances) >= HELD:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for a new session", retry_after_ms=1000)
        self._hold(reopening)
        return self.handle

    def cancel(self, reason: str) -> None:
        """Cancel the request, which may be sent again already or wait for the new session."""
        if self.current is not None:
            self._connection.cancel(self.current, reason)
        self.current = None
        self._forget()

    @property
    def held(self) -> bool:
        """Whether it waits for a new session."""
        return self.current is None

    def on_response(self, answer: Result | Failure) -> None:
        self._forget()
        self._sink.on_response(answer)

    def on_notification(self, method: str, params: bytes) -> None:
        self._sink.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        self._sink.on_request(request)

    def on_lost(self, fault: Fault) -> None:
        self._forget()
        self._sink.on_lost(fault)

    def _hold(self, task: asyncio.Task[None]) -> None:
        # From now on its id differs from its handle. Its deadline still holds.
        self.current = None
        self._connection.chances[self.handle] = self
        self._late = asyncio.get_running_loop().call_at(self._outgoing.deadline, self._too_late)
        task.add_done_callback(self._reopened)

    def _reopened(self, task: asyncio.Task[None]) -> None:
        if self.handle not in self._connection.chances:
            return
        self._settle()
        try:
            if task.cancelled() or task.exception() is not None:
                raise Fault("UPSTREAM_UNAVAILABLE", "the server lost the session, and a new one could not be opened")
            # The request is not sent a third time.
            outgoing = msgspec.structs.replace(self._outgoing, idempotent=self._again)
            self.current = self._connection.link.send(outgoing, self)
        except Fault as fault:
            self._forget()
            self._sink.on_lost(fault)

    def _too_late(self) -> None:
        self._forget()
        self._sink.on_lost(Fault("UPSTREAM_TIMEOUT", f"no new session for {self._outgoing.method} in time"))

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _forget(self) -> None:
        self._settle()
        self._connection.chances.pop(self.handle, None)
