"""Answers calls with refusals, and records each: in the audit log, and among the latest for `interlock why`."""

from __future__ import annotations

import asyncio

from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.refusal_pacing import SLOWED, RefusalPacing
from interlock.hub.calls.refusals import Refusals
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.catalog.target import TargetKind
from interlock.hub.sessions.session import Exchange
from interlock.protocols.mcp.results import refusal_result
from interlock.wire.errors import Fault


class RefusalAnswers:
    """The refusals of one pipeline."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.latest = Refusals()
        self._pacing = RefusalPacing()
        self._loop = asyncio.get_running_loop()

    def refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Answer a call with a refusal, and record it."""
        fault, exchange = refusal.fault, call.exchange
        self.record(call, refusal, gate)
        if not refusal.hidden:
            fault.add_data(gate=gate, rule=refusal.rule)
        dialect = exchange.dialect
        if fault.kind.as_result and call.target.kind == "tool" and not dialect.rest:
            exchange.result(refusal_result(fault, modern=dialect.modern, error_dialect=dialect.error_dialect))
            return
        slowed, open_calls, now = fault.name in SLOWED, call.caller.open_calls, self._loop.time()
        if slowed and (pause_s := self._pacing.pause_s(open_calls, now)) > 0:
            self._loop.call_later(pause_s, exchange.fail, fault)
        else:
            exchange.fail(fault)

    def record(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Record the refusal of a call that somebody else answers."""
        self.latest.add(call, refusal, gate)
        self._recording.refused(call, refusal.fault, gate, refusal.rule)

    def record_unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Record that a name was refused."""
        self._recording.unresolved(exchange, caller, kind, name, fault)
        self.latest.add_unresolved(caller, kind, name, fault)
