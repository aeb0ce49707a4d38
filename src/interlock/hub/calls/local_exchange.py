"""Calls that start inside the hub's process, for the terminal and tests. They pass the same pipeline as any call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from interlock.hub.calls.call import Caller
from interlock.hub.sessions.exchanges import FutureExchange
from interlock.hub.sessions.session import Service
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.revisions import LATEST_LEGACY
from interlock.transports.exchange import unanswered
from interlock.wire.errors import Fault
from interlock.wire.messages import Request


class StateSource(Protocol):
    """The states of the conversation that a call belongs to (MCPL)."""

    def use(self, server: str, feature_set: str) -> Mapping[str, object]:
        """The members that the call of a tool gets."""


async def call_locally(
    service: Service[Caller],
    caller: Caller,
    method: str,
    params: bytes,
    timeout_s: float,
    states: StateSource | None = None,
) -> bytes:
    """Ask and wait. Raises a `Fault`; the answering server's own error keeps its code."""
    exchange = LocalExchange(Request(1, method, params), caller, states)
    service.serve(exchange)
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(exchange.answer)
    except TimeoutError:
        exchange.cancel("the caller gave up")
        raise Fault("TIMEOUT", f"no answer within {timeout_s:g} s") from None
    except asyncio.CancelledError:
        exchange.cancel("the caller is gone")
        raise


class LocalExchange(FutureExchange[Caller]):
    """A request without a transport."""

    __slots__ = ("states",)

    def __init__(self, request: Request, caller: Caller, states: StateSource | None = None) -> None:
        super().__init__(request, preview(request.params), Dialect(LATEST_LEGACY), caller)
        self.states = states

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise unanswered(method, "at the terminal")

    def cancel(self, reason: str) -> None:
        """Give up the answer."""
        self.answer.cancel()
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel(reason)
