"""One REST request on its way through the hub: an exchange like any other, answered with a status and a body.

What a tool says on the way is kept only for a client that streams, and never more of it than the bound.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from interlock.hub.calls.call import Caller
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import preview
from interlock.protocols.mcp.revisions import LATEST
from interlock.transports.exchange import Exchange
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import TABLE, ErrorObject, Fault
from interlock.wire.messages import Request, one_line

MOST_UNREAD: Final = 1_000
"""Progress held for a client that does not read it. The oldest goes first."""

_NEEDS_MORE: Final = TABLE["MISSING_CAPABILITY"].new_mcp
_MCP_CLIENT: Final = "call it with an MCP client that answers questions"


class RestEvent(msgspec.Struct, frozen=True):
    """Something said before the answer."""

    name: str
    data: bytes


class RestExchange(Exchange):
    """A request that came as plain HTTP."""

    __slots__ = ("_events", "_outcome", "_woken", "streams")

    def __init__(self, method: str, params: bytes, caller: Caller, *, streams: bool = False) -> None:
        # No log messages: to some servers, whoever wants them gets a connection of their own, and so another process.
        dialect = Dialect(LATEST, rest=True)
        super().__init__(Request(1, method, params), preview(params), dialect, caller, None, None)
        self.streams = streams
        self._events: deque[RestEvent] = deque(maxlen=MOST_UNREAD)
        self._outcome: bytes | Fault | None = None
        self._woken = asyncio.Event()

    @property
    def open(self) -> bool:
        return self._outcome is None

    def result(self, result: bytes) -> None:
        self._settle(result)

    def fail(self, fault: Fault) -> None:
        self._settle(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        """A server's own error is a tool that failed, or one that needs a client who answers."""
        name = "MISSING_CAPABILITY" if error.code == _NEEDS_MORE else "UPSTREAM_ERROR"
        self._settle(Fault(name, error.message, hint=_MCP_CLIENT if name == "MISSING_CAPABILITY" else ""))

    def notify(self, method: str, params: bytes) -> None:
        if self.streams and self.open and method == PROGRESS:
            self._events.append(RestEvent("progress", one_line(params)))
            self._woken.set()

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise Fault("MISSING_CAPABILITY", f"{method} cannot be answered over REST", hint=_MCP_CLIENT)

    async def next(self) -> RestEvent | bytes | Fault:
        """What was said next, and the answer at last."""
        while True:
            if self._events:
                return self._events.popleft()
            if self._outcome is not None:
                return self._outcome
            self._woken.clear()
            await self._woken.wait()

    def cancel(self, reason: str) -> None:
        """The client has gone."""
        if self._outcome is None:
            told = self.on_cancel
            self._settle(Fault("CANCELLED", reason))
            if told is not None:
                told(reason)

    def _settle(self, outcome: bytes | Fault) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self.on_cancel = None
            self._woken.set()
