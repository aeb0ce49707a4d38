"""`mgp/lifecycle/shutdown` of a server: it finishes its calls, refuses new ones, and ends (MGP, Graceful Shutdown).

Only a client on standard streams may ask: it is the process that started this one. A server over HTTP has other users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.protocols.mgp.health import timestamp
from interlock.protocols.mgp.lifecycle import (
    CHANGED,
    SHUTDOWN,
    ShutdownAccepted,
    ShutdownParams,
    StateChanged,
    estimated_drain_ms,
)
from interlock.protocols.mgp.methods import agreed_on, read_params
from interlock.server.handlers.calls import Calls
from interlock.server.mgp.agreement import Handler
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange, ServerSession
from interlock.wire.errors import Fault

STILL_SERVED: Final = frozenset(
    {"mgp/health/ping", "mgp/health/status", SHUTDOWN, "mgp/stream/cancel", "mgp/callback/respond"}
    | {"tasks/get", "tasks/result", "tasks/cancel"}
)
"""Methods that begin no work."""


class Shutdown:
    """The end of one server."""

    def __init__(self, name: str, calls: Calls, framing: Framing, sessions: Iterable[ServerSession]) -> None:
        self._name = name
        self._calls = calls
        self._framing = framing
        self._sessions = sessions
        self._draining: asyncio.Task[None] | None = None
        self._request: ShutdownParams | None = None
        self._until = 0.0
        self._drained: asyncio.Event | None = None

    def handlers(self) -> dict[str, Handler]:
        """The handler of the method."""
        return {SHUTDOWN: self._shut_down}

    async def wait(self) -> None:
        """Wait until a shutdown was asked for and the calls are done."""
        self._drained = self._drained or asyncio.Event()
        await self._drained.wait()

    def check(self, method: str) -> None:
        """Raise SERVER_DRAINING for new work while the server shuts down."""
        if self._request is not None and method not in STILL_SERVED:
            left_ms = int(max(0.0, self._until - asyncio.get_running_loop().time()) * 1000)
            raise Fault("SERVER_DRAINING", f"{self._name} is shutting down", retry_after_ms=max(1000, left_ms))

    def _shut_down(self, exchange: Exchange) -> None:
        if exchange.headers is not None:
            hint = "end the process, or let the client that started it ask"
            raise Fault("PERMISSION_DENIED", "a server over HTTP is not shut down by its clients", hint=hint)
        params = read_params(exchange.request.params, ShutdownParams)
        pending = self._calls.pending
        estimate = estimated_drain_ms(pending, self._calls.usual_ms, params.timeout_ms)
        result = msgspec.json.encode(ShutdownAccepted(True, pending, estimate))
        self._framing.answer(exchange, result[1:-1])
        if self._request is None:
            self._request = params
            loop = asyncio.get_running_loop()
            self._until = loop.time() + params.timeout_ms / 1000
            self._notify(params.reason)
            self._draining = loop.create_task(self._drain(params))

    def _notify(self, reason: str) -> None:
        change = StateChanged(self._name, "connected", "draining", reason, timestamp(datetime.now(UTC)))
        params = msgspec.json.encode(change)
        for session in list(self._sessions):
            if agreed_on(session.dialect, "lifecycle"):
                session.notify(CHANGED, params)

    async def _drain(self, params: ShutdownParams) -> None:
        await self._calls.wait_until_idle(params.timeout_ms / 1000)
        self._drained = self._drained or asyncio.Event()
        self._drained.set()
