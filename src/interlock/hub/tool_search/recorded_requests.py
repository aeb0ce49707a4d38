"""Requests to the hub's own tools: counted for the caller's rates, recorded in the audit log, and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import SUCCEEDED, TOOL_FAILED
from interlock.hub.calls.call import Caller
from interlock.hub.calls.rates import Rates, limited, take
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.exchanges import answer, refuse_tool
from interlock.hub.sessions.session import Exchange
from interlock.protocols.traces import trace_of
from interlock.wire.errors import Fault

Result = TypeVar("Result")
FITS: Final = "arguments must fit the tool's input schema"


class RecordedRequests:
    """Counts, records and answers requests."""

    def __init__(self, rates: Rates, recording: Recording) -> None:
        self._rates = rates
        self._recording = recording
        self._clock = asyncio.get_running_loop().time

    def begin(self, exchange: Exchange, caller: Caller, name: str, arguments: bytes) -> Ticket:
        """Count a call and record its intent. Raises RATE_LIMITED, or the reason why it cannot be recorded."""
        target = _target(name)
        refusal = take(self._rates.of(caller.principal, target), self._clock())
        if refusal is not None:
            self.refused(exchange, caller, name, refusal.fault, "rates", refusal.rule)
            _raise(refusal)
        return self._recording.recorder.intent(
            caller.principal, target, trace_of(exchange.request, exchange.preview), arguments
        )

    async def outcome(self, ticket: Ticket, work: Awaitable[Result]) -> Result:
        """Do the work of a request, and record its outcome, however it ends."""
        try:
            result = await work
        except BaseException:
            self._recording.recorder.outcome(ticket, TOOL_FAILED)
            raise
        self._recording.recorder.outcome(ticket, SUCCEEDED)
        return result

    async def answer_tool(self, exchange: Exchange, ticket: Ticket, work: Awaitable[bytes]) -> None:
        """Answer a call of a tool with the result of its work, and record the outcome."""
        try:
            answer(exchange, await self.outcome(ticket, work))
        except Fault as fault:
            refuse_tool(exchange, fault)

    def refuse_arguments(self, exchange: Exchange, caller: Caller, name: str, fault: Fault) -> None:
        """Refuse a call of a tool whose arguments do not fit, and record that."""
        self.refused(exchange, caller, name, fault, "schema", FITS)
        refuse_tool(exchange, fault)

    def refused(self, exchange: Exchange, caller: Caller, name: str, fault: Fault, gate: str, rule: str) -> None:
        """Record that a call was refused."""
        event = _EVENTS.get(fault.name, "")
        self._recording.recorder.refusal(
            caller.principal,
            _target(name),
            trace_of(exchange.request, exchange.preview),
            gate,
            rule,
            fault.message,
            event=event,
        )

    def check(self, caller: Caller) -> None:
        """Raise RATE_LIMITED if a rate that counts every request of the caller is used up."""
        _raise(limited(self._rates.of(caller.principal, _ANYTHING), self._clock()))

    def malformed(self, caller: Caller) -> None:
        """Count a request that cannot be read. Raises RATE_LIMITED."""
        self.count(caller)

    def count(self, caller: Caller) -> None:
        """Count a request that is no call. Raises RATE_LIMITED."""
        _raise(take(self._rates.of(caller.principal, _ANYTHING), self._clock()))

    def refusal_now(self, caller: Caller, name: str) -> Refuse | None:
        """The refusal by the rates that a call would get now; None if there is none. Counts nothing."""
        return limited(self._rates.of(caller.principal, _target(name)), self._clock())


_EVENTS: Final = {"INVALID_TOOL_ARGS": "VALIDATION_FAILED", "CODE_SAFETY_VIOLATION": "CODE_REJECTED"}
_ANYTHING: Final = Target("tool", "", "")


def _raise(refusal: Refuse | None) -> None:
    if refusal is not None:
        refusal.fault.add_data(gate="rates", rule=refusal.rule)
        raise refusal.fault


def _target(name: str) -> Target:
    return Target("tool", "", name)
