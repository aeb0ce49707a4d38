"""Forwards a server's request to the client, once no gate refuses it, and records how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from interlock.hub.audit.record import ASKED, CANCELLED, FETCHED, TIMED_OUT, UNREADABLE, Outcome
from interlock.hub.audit.write_failures import CommitSlow
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.commit_waits import CommitWaits
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.server_request import ServerRequestExchange
from interlock.wire.errors import Fault


class RequestDispatcher(Protocol):
    """The dispatcher, as this uses it."""

    states: RequestStates

    def record(self, call: Call, plan: Plan) -> None:
        """Record the intent of a committed call. Raises a `Fault`."""

    def done(self, call: Call, outcome: Outcome | None = None) -> None:
        """Give the place of a call back, and record how it ended."""


class ClientForwarder:
    """Forwards requests of servers to clients."""

    def __init__(self, recording: Recording, commit_waits: CommitWaits, dispatcher: RequestDispatcher) -> None:
        self._recording = recording
        self._commit_waits = commit_waits
        self._dispatcher = dispatcher

    def send(self, call: Call, plan: Plan) -> None:
        """Record the intent and send the request: at once, or once the intent is committed. Raises a `Fault`."""
        try:
            if not self._recording.strict:
                self._dispatcher.record(call, plan)
                self._forward(call, plan)
                return
        except CommitSlow:
            pass
        self._commit_waits.begin(call, plan, partial(self._forward, call))

    def _forward(self, call: Call, plan: Plan) -> None:
        exchange = call.exchange
        assert isinstance(exchange, ServerRequestExchange), "only servers call targets at a client"
        on_unsent = partial(self._on_unsent, call)
        exchange.answer.add_done_callback(on_unsent)
        exchange.before_delivery(call, partial(self._send, call, exchange, on_unsent))

    def _on_unsent(self, call: Call, answer: asyncio.Future[bytes]) -> None:
        """The request was withdrawn, or failed, before the client got it."""
        self._dispatcher.done(call, CANCELLED if answer.cancelled() else None)

    def _send(
        self, call: Call, exchange: ServerRequestExchange, on_unsent: Callable[[asyncio.Future[bytes]], None]
    ) -> None:
        if not exchange.open:
            return
        exchange.answer.remove_done_callback(on_unsent)
        if exchange.leaves:
            self._dispatcher.done(call, ASKED)
            exchange.result(b"")
            return
        try:
            waiting = exchange.send()
        except Fault as fault:
            self._fail(call, fault)
            return

        def cancelled(reason: str) -> None:
            waiting.cancel(reason)

        exchange.on_cancel = cancelled
        waiting.add_done_callback(partial(self._on_answer, call, exchange))
        if exchange.beside:
            life_s = self._dispatcher.states.life_s
            timer = asyncio.get_running_loop().call_later(life_s, self._late, call, waiting, life_s)
            waiting.add_done_callback(lambda _: timer.cancel())

    def _late(self, call: Call, waiting: asyncio.Future[bytes], life_s: float) -> None:
        self._fail(call, Fault("TIMEOUT", f"the client did not answer within {life_s:g} s"), TIMED_OUT)
        waiting.cancel("no answer came in time")

    def _on_answer(self, call: Call, exchange: ServerRequestExchange, waiting: asyncio.Future[bytes]) -> None:
        cause = None if waiting.cancelled() else waiting.exception()
        if waiting.cancelled():
            outcome = CANCELLED
        elif cause is None:
            outcome = FETCHED
        else:
            code = cause.foreign_code if isinstance(cause, Fault) else None
            outcome = UNREADABLE if code is None else Outcome("answered", "error", code=code)
        self._dispatcher.done(call, outcome)
        if waiting.cancelled():
            exchange.withdraw("the client's answer is no longer awaited")
        elif cause is None:
            exchange.result(waiting.result())
        else:
            ours = Fault("INTERNAL_ERROR", "the client could not be asked")
            exchange.fail(cause if isinstance(cause, Fault) else ours)

    def _fail(self, call: Call, fault: Fault, outcome: Outcome | None = None) -> None:
        self._dispatcher.done(call, outcome)
        call.exchange.fail(fault)
