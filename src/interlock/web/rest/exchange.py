"""A REST request as an exchange, which the hub serves like any other.

Progress is kept only for a client that streams, up to a bound.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from interlock.hub.calls.call import Caller
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.revisions import LATEST
from interlock.protocols.mgp.streaming import CHUNK
from interlock.transports.drain import Drain
from interlock.transports.exchange import NEEDS_CLIENT, Exchange, unanswered
from interlock.transports.sessions.session import SessionEnd
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import TABLE, ErrorObject, Fault
from interlock.wire.large import JoinedArray
from interlock.wire.messages import Request, one_line

MAX_UNREAD: Final = 1_000
"""Unread events for one client. The oldest are dropped first. Chunks wait for a client that has half of them unread."""

_EVENTS: Final = {PROGRESS: "progress", CHUNK: "chunk"}

Outcome = bytes | JoinedArray | Fault

_NEEDS_MORE: Final = TABLE["MISSING_CAPABILITY"].new_mcp


class RestEvent(msgspec.Struct, frozen=True):
    """An event before the answer."""

    name: str
    data: bytes


class RestExchange(Exchange):
    __slots__ = ("__weakref__", "_drain", "_events", "_outcome", "_woken", "streams")

    def __init__(self, method: str, params: bytes, caller: Caller, *, streams: bool = False) -> None:
        # No log messages: at some servers they need a private connection, and so another process.
        dialect = Dialect(LATEST, rest=True)
        super().__init__(Request(1, method, params), preview(params), dialect, caller, None, None)
        self.streams = streams
        self._events: deque[RestEvent] = deque(maxlen=MAX_UNREAD)
        self._outcome: Outcome | None = None
        self._woken = asyncio.Event()
        self._drain = Drain()

    @property
    def open(self) -> bool:
        return self._outcome is None

    def result(self, result: bytes) -> None:
        self._finish(result)

    def result_list(self, head: bytes, listed: JoinedArray) -> None:
        """Keep the items of a list. REST returns them without the other members."""
        self._finish(listed)

    def fail(self, fault: Fault) -> None:
        self._finish(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        """Translate a server's error: the tool failed, or it needs a client that answers requests."""
        name = "MISSING_CAPABILITY" if error.code == _NEEDS_MORE else "UPSTREAM_ERROR"
        hint = NEEDS_CLIENT if name == "MISSING_CAPABILITY" else ""
        self._finish(Fault(name, error.message, hint=hint, data={"retryable": says_retry(bytes(error.data))}))

    def notify(self, method: str, params: bytes) -> None:
        if self.streams and self.open and method in _EVENTS:
            self._events.append(RestEvent(_EVENTS[method], one_line(params)))
            self._woken.set()

    def drained(self) -> asyncio.Future[None] | None:
        return self._drain.wait() if self.open and len(self._events) >= MAX_UNREAD // 2 else None

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise unanswered(method, "over REST")

    async def next(self) -> RestEvent | Outcome:
        """The next event, and finally the answer."""
        while True:
            if self._events:
                event = self._events.popleft()
                if not self._events:
                    self._drain.release()
                return event
            if self._outcome is not None:
                return self._outcome
            self._woken.clear()
            await self._woken.wait()

    def cancel(self, reason: str) -> None:
        """Cancel the call: the client disconnected."""
        if self._outcome is None:
            on_cancel = self.on_cancel
            self._finish(Fault("CANCELLED", reason))
            if on_cancel is not None:
                on_cancel(reason)

    def abort(self, end: SessionEnd) -> None:
        """Answer that the hub stops, and cancel the call."""
        self.revoke(end.fault(self.request.method), end.reason)

    def _finish(self, outcome: Outcome) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self.on_cancel = None
            self._drain.release()
            self._woken.set()


def says_retry(data: bytes) -> bool:
    """Whether the `data` of a server's error says that the call may be repeated (MGP, Error Structure)."""
    try:
        decoded = msgspec.json.decode(data or b"{}", type=_ErrorData)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return decoded.retryable is True or decoded.mgp.retryable is True


class _Mgp(msgspec.Struct):
    retryable: object = None


class _ErrorData(msgspec.Struct):
    retryable: object = None
    mgp: _Mgp = msgspec.field(default_factory=_Mgp, name="_mgp")
