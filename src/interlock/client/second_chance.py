"""A request that a lost session refused, sent again once in the new one. Only for what may be sent twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock.transports.link import Outgoing, Sink
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

if TYPE_CHECKING:
    from interlock.client.connection import Connection


class SecondChance:
    """Stands before a sink. The handle that the caller got stays good, whatever id the request has now."""

    __slots__ = ("_again", "_connection", "_outgoing", "_session", "_sink", "current", "handle")

    def __init__(self, connection: Connection, outgoing: Outgoing, sink: Sink, again: bool) -> None:
        self._connection = connection
        self._outgoing = outgoing
        self._sink = sink
        self._again = again
        self._session = ""
        self.current: Id | None = None
        """The id that the request has now; None while it waits for the new session."""
        self.handle: Id = 0

    def send(self, session: str | None) -> Id:
        """Send it for the first time: now, or in the session that is just being opened."""
        reopening = self._connection.reopening
        if reopening is None and session is not None:
            self._session = session
            self.handle = self.current = self._connection.link.send(self._outgoing, self)
            return self.handle
        assert reopening is not None
        self.handle = f"held-{id(self)}"
        self._hold(reopening)
        return self.handle

    def cancel(self, reason: str) -> None:
        """The caller no longer wants it; it may be under way again, or waiting for the new session."""
        if self.current is not None:
            self._connection.link.cancel(self.current, reason)
        self.current = None
        self._connection.chances.pop(self.handle, None)

    def answered(self, answer: Result | Failure) -> None:
        self._connection.chances.pop(self.handle, None)
        self._sink.answered(answer)

    def notified(self, method: str, params: bytes) -> None:
        self._sink.notified(method, params)

    def asked(self, request: Request) -> None:
        self._sink.asked(request)

    def lost(self, fault: Fault) -> None:
        connection = self._connection
        task = connection.reopen(self._session) if fault.name == "SESSION_UNKNOWN" else None
        if task is None or not self._again:
            connection.chances.pop(self.handle, None)
            self._sink.lost(fault)
            return
        self._again = False
        self._hold(task)

    def _hold(self, task: asyncio.Task[None]) -> None:
        # From now on its id is not its handle.
        self.current = None
        self._connection.chances[self.handle] = self
        task.add_done_callback(self._reopened)

    def _reopened(self, task: asyncio.Task[None]) -> None:
        connection = self._connection
        if self.handle not in connection.chances:
            return
        try:
            if task.cancelled() or task.exception() is not None:
                raise Fault("UPSTREAM_UNAVAILABLE", "the server lost the session, and a new one could not be opened")
            self.current = connection.link.send(self._outgoing, self)
        except Fault as fault:
            del connection.chances[self.handle]
            self._sink.lost(fault)
