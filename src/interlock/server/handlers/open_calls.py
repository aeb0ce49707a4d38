"""Cancels calls by the id of their request, for clients that agreed on MGP's streaming (MGP, Cancellation)."""

from __future__ import annotations

from collections.abc import Callable

from interlock.protocols.mgp.streaming import CANCEL, cancelled, read_cancel
from interlock.server.definitions import results
from interlock.server.requests.callers import Anyone
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange
from interlock.server.requests.work import Work
from interlock.transports.requests.open_requests import OpenRequests
from interlock.wire.errors import Fault


class CancellableCalls:
    """The calls of one server that can be cancelled by their id."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._open: OpenRequests[Work] = OpenRequests()

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {CANCEL: self._cancel}

    def add(self, exchange: Exchange, work: Work) -> None:
        """A request waits for this work: the first, or a retry of it."""
        self._open.add(exchange, work)

    def remove(self, work: Work) -> None:
        """The work is done."""
        self._open.remove(work)

    def _cancel(self, exchange: Exchange) -> None:
        """Answer with the content so far. The call itself is answered with an error."""
        params = read_cancel(exchange.request.params)
        if exchange.conversation is None and isinstance(exchange.caller, Anyone):
            # Without sessions and credentials all callers are one principal. Only the caller knows the trace of a call.
            works = [
                each for each in self._open.candidates(exchange, params.request_id) if each.trace == params.trace_id
            ]
            work = works[0] if len(works) == 1 and params.trace_id else None
        else:
            work = self._open.find(exchange, params.request_id)
        partial = None
        if work is not None and not work.stopped and work.running is None:
            partial = results.partial(results.Items(work.items), work.dialect.revision)
            work.stop(params.reason)
            # At once: a function in a thread runs on, and one that has not begun never will.
            work.done(Fault("CANCELLED", params.reason or "the client cancelled it"))
        self._framing.answer(exchange, cancelled(partial))
