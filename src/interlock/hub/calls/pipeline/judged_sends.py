"""Judges messages that a client sends to a server beside calls: to a channel, or to take state back (MCPL).

They pass the gates of any call, wait for a person where a gate asks, count for the rates, use an approval up, and have
their intent in the audit log before they are sent. That a person enabled the feature set allows the method; it does not
answer a gate that asks because of a taint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import CANCELLED, NOT_SENT, Outcome
from interlock.hub.calls.call import Call, Caller, Plan
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.plan import make_plan
from interlock.hub.calls.rates import give_back, take
from interlock.hub.calls.recording import Recording, lost
from interlock.hub.calls.refusals import changed
from interlock.hub.calls.verdicts import Ask, Refuse
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import Exchange
from interlock.hub.store_faults import as_faults, fault_of
from interlock.protocols.traces import trace_of
from interlock.store import StoreError
from interlock.wire.errors import Fault

MAX_JUDGEMENTS: Final = 8
"""How often a message is judged anew because something changed while it waited."""


class JudgedSends:
    """Admits messages, and records them."""

    def __init__(self, pipeline: Pipeline, approvals: CallApprovals, recording: Recording) -> None:
        self._pipeline = pipeline
        self._approvals = approvals
        self._recording = recording
        self._tickets: dict[Call, Ticket] = {}
        """The entries of admitted messages in the audit log, until they end."""

    def of(self, exchange: Exchange, caller: Caller, target: Target, arguments: bytes) -> Call:
        """A message that is to be judged. `arguments` is what a person approves, and what the audit log hashes."""
        return Call(exchange, caller, target, arguments, trace_of(exchange.request, exchange.preview))

    async def admit(self, call: Call) -> None:
        """Return once the message may be sent and its intent is recorded. Raises the `Fault` of a refusal."""
        try:
            for _ in range(MAX_JUDGEMENTS):
                ask = await self._judged(call)
                if ask is not None:
                    await self._approved(call, *ask)
                elif await self._committed(call):
                    return
        except BaseException:
            # Also where the store failed: an entry without an outcome keeps its space in the queue.
            self.ended(call, NOT_SENT, {})
            raise
        raise self._refused(call, changed("rights or approvals"), "commit")

    def refuse(self, call: Call, fault: Fault, rule: str) -> None:
        """Record that a message is refused by the feature sets of its sender."""
        self._recording.refused(call, fault, "features", rule)

    def failed(self, call: Call, fault: Fault, details: Mapping[str, object]) -> None:
        """Record that an admitted message failed, or was not sent after all."""
        self.ended(call, lost(fault), details, fault.summary)

    def given_up(self, call: Call, details: Mapping[str, object]) -> None:
        """Record that the client of an admitted message has gone before the server answered."""
        self.ended(call, CANCELLED, details, "the client no longer waits for the answer")

    def ended(self, call: Call, outcome: Outcome, details: Mapping[str, object], reason: str = "") -> None:
        """Record how an admitted message ended, once."""
        ticket = self._tickets.pop(call, None)
        if ticket is not None:
            self._recording.recorder.outcome(ticket, outcome, reason[:500], details)

    async def _judged(self, call: Call) -> tuple[Ask, str] | None:
        """The question of a gate, and the gate; None where the message may go. Raises the `Fault` of a refusal."""
        verdict, gate = await self._pipeline.held.full_verdict(call, self._plan(call))
        if isinstance(verdict, Refuse):
            raise self._refused(call, verdict, gate)
        return (verdict, gate) if isinstance(verdict, Ask) else None

    async def _approved(self, call: Call, ask: Ask, gate: str) -> None:
        """Find an approval, or ask for one. Raises the `Fault` of a refusal."""
        existing = self._approvals.existing(call, ask)
        call.use_approval(existing)
        if existing is not None:
            return
        try:
            answer = await self._approvals.settle(call, ask)
        except StoreError as cause:
            answer = Refuse(fault_of(cause), ask.rule)
        except Fault as fault:
            answer = Refuse(fault, ask.rule)
        if isinstance(answer, Refuse):
            raise self._refused(call, answer, gate)
        call.use_approval(answer if self._approvals.fits(call, answer, ask) else None)

    async def _committed(self, call: Call) -> bool:
        """Take rates and places for the message, and record its intent. False where it has to be judged anew."""
        plan, at, committed = self._plan(call), asyncio.get_running_loop().time(), False
        limit = take(plan.meters, at)
        if limit is not None:
            raise self._refused(call, limit, "rates")
        try:
            committed = await self._recorded(call, plan)
        finally:
            if not committed:
                give_back(plan.meters, at)
        return committed

    async def _recorded(self, call: Call, plan: Plan) -> bool:
        """Use the approval up, and record the intent. False where the message has to be judged anew."""
        with as_faults():
            if call.approval is not None and not await self._approvals.take(call.approval):
                call.use_approval(None)
                return False
            self._tickets[call] = self._recording.begin(call, plan.judged)
            await self._recording.recorder.flushed()
        # Everything may have changed while the store was written.
        if call.exchange.open and await self._judged(call) is None:
            return True
        self.ended(call, NOT_SENT, {})
        if not call.exchange.open:
            raise Fault("CANCELLED", "the client gave the message up before it was sent")
        call.start_over(call.target)
        return False

    def _plan(self, call: Call) -> Plan:
        """The plan for a target that no catalog names, made each time: such messages are few."""
        pipeline, target = self._pipeline, call.target
        name, generation = f"{target.server}/{target.name}", pipeline.plan_generation.number
        return make_plan(pipeline.policy, pipeline, call.caller, name, target, generation)

    def _refused(self, call: Call, refusal: Refuse, gate: str) -> Fault:
        self._pipeline.refusals.record(call, refusal, gate)
        if not refusal.hidden:
            refusal.fault.add_data(gate=gate, rule=refusal.rule)
        return refusal.fault
