"""A request that a lost session refused, sent again once in the new one. Only for what may be sent twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from interlock.transports.link import Outgoing, Sink
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

if TYPE_CHECKING:
    from interlock.client.connection import Connection


HELD: Final = 4_096
"""Most requests that may wait for a new session."""


class SessionRetry:
    """Stands before a sink. The handle that the caller got stays good, whatever id the request has now."""

    __slots__ = ("_again", "_connection", "_late", "_outgoing", "_session", "_sink", "current", "handle")

    def __init__(self, connection: Connection, outgoing: Outgoing, sink: Sink, again: bool) -> None:
        self._connection = connection
        self._outgoing = outgoing
        self._sink = sink
        self._again = again
        self._session = ""
        self.current: Id | None = None
        """The id that the request has now; None while it waits for the new session."""
        self._late: asyncio.TimerHandle | None = None
        self.handle: Id = 0

    def adopt(self, id: Id, session: str) -> SessionRetry:
        """Stand before a sink whose request was sent already."""
        self.handle = self.current = id
        self._session = session
        return self

    def send(self, session: str | None) -> Id:
        """Send it for the first time: now, or in the session that is just being opened."""
        reopening = self._connection.reopening
        if reopening is None and session is not None:
            self._session = session
            self.handle = self.current = self._connection.link.send(self._outgoing, self)
            return self.handle
        assert reopening is not None
        if len(self._connection.chances) >= HELD:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for a new session", retry_after_ms=1000)
        self.handle = f"held-{id(self)}"
        self._hold(reopening)
        return self.handle

    def cancel(self, reason: str) -> None:
        """The caller no longer wants it; it may be under way again, or waiting for the new session."""
        if self.current is not None:
            self._connection.link.cancel(self.current, reason)
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
        connection = self._connection
        task = connection.reopen(self._session) if fault.name == "SESSION_UNKNOWN" else None
        if task is None or not self._again:
            self._forget()
            self._sink.on_lost(fault)
            return
        self._again = False
        self._hold(task)

    def _hold(self, task: asyncio.Task[None]) -> None:
        # From now on its id is not its handle. Its deadline holds here, too.
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
            self.current = self._connection.link.send(self._outgoing, self)
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
