"""Calls that do not pass at once: refused ones, and ones that wait for a check, for a person, or for the store.

Everything may change while a call is held, so it is judged again before it is sent.
"""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.hub.audit.record import LATE
from interlock.hub.calls.background_tasks import BackgroundTasks, while_wanted
from interlock.hub.calls.call import Call, CallPipeline, Plan
from interlock.hub.calls.dispatch.dispatcher import Dispatcher
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.refusals import changed, unknown_now
from interlock.hub.calls.timeouts import work_of
from interlock.hub.calls.verdicts import PASS, Ask, Pass, Refuse, Verdict, Wait
from interlock.hub.catalog.target import Approval
from interlock.hub.store_faults import fault_of
from interlock.store import StoreError
from interlock.wire.errors import Fault

MAX_HELD: Final = 4096
"""Upper bound for calls that wait for a check or an approval."""


class HeldCalls:
    """The held calls of one pipeline."""

    def __init__(
        self,
        pipeline: CallPipeline,
        plan_generation: PlanGeneration,
        approvals: CallApprovals,
        dispatcher: Dispatcher,
        recording: Recording,
    ) -> None:
        self._pipeline = pipeline
        self._plan_generation = plan_generation
        self._approvals = approvals
        self._dispatcher = dispatcher
        self._recording = recording
        self._held = BackgroundTasks()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._held)

    def proceed(self, call: Call, plan: Plan, verdict: Verdict, gate: str) -> None:
        """Dispatch, refuse or hold a call, as the verdict says."""
        if isinstance(verdict, Pass):
            self._dispatcher.dispatch(call, plan)
        elif isinstance(verdict, Refuse):
            self._pipeline.refuse(call, verdict, gate)
        elif isinstance(verdict, Ask):
            self._find_approval(call, plan, verdict, gate)
        elif len(self._held) >= MAX_HELD:
            fault = Fault("RESOURCE_EXHAUSTED", f"{MAX_HELD} calls wait to be checked", retry_after_ms=1000)
            self._pipeline.refuse(call, Refuse(fault, "bounds of calls that wait"), gate)
        else:
            self._held.begin(self._wait(call, plan, verdict, gate), call)

    def answer_late(self, call: Call, plan: Plan, verdict: Verdict) -> bool:
        """Answer a call with the result of an identical one whose client had gone; False if there is none."""
        late_results = self._dispatcher.late_results
        if not isinstance(verdict, Pass | Ask) or call.target.kind != "tool":
            return False
        late = late_results.take(call) if late_results.results else None
        if late is None:
            return False
        self._recording.found(LATE, call, ["an identical call ran after its client had gone"])
        late_results.answer_late(call, plan, late)
        return True

    # For a check that takes time

    async def full_verdict(self, call: Call, plan: Plan) -> tuple[Verdict, str]:
        """The verdict of all gates, once those that wait have theirs, and the gate that gave it."""
        verdict, gate = self._pipeline.judge(call, plan)
        return await self._after_wait(call, plan, verdict, gate) if isinstance(verdict, Wait) else (verdict, gate)

    async def _after_wait(self, call: Call, plan: Plan, wait: Wait, gate: str) -> tuple[Verdict, str]:
        """The verdict on a call, one of whose gates has to wait."""
        ends = self._loop.time() + plan.timeouts.validation_s
        verdict: Verdict = wait
        while isinstance(verdict, Wait):
            wait, verdict = verdict, await work_of(verdict, gate, ends, plan.timeouts.validation_s)
            if isinstance(verdict, Wait):
                verdict = Wait(verdict.work, wait.found, wait.asking)
            elif not isinstance(verdict, Refuse) and self._plan_generation.number != plan.generation:
                verdict = changed("tools, settings or rights")
            elif not isinstance(verdict, Refuse):
                verdict, gate = self._pipeline.judge(call, plan, wait.ended(gate, verdict))
        return verdict, gate

    async def _wait(self, call: Call, plan: Plan, wait: Wait, gate: str) -> None:
        verdict, gate = await self._after_wait(call, plan, wait, gate)
        if call.exchange.open and not self.answer_late(call, plan, verdict):
            self.proceed(call, plan, verdict, gate)

    # For a person

    def _find_approval(self, call: Call, plan: Plan, ask: Ask, gate: str) -> None:
        """Submit a call again with the approval that exists for it. Without one, ask a person."""
        try:
            if self._approvals.resumes(call):
                return
        except Fault as refused:
            call.exchange.fail(refused)
            return
        existing = self._approvals.existing(call, ask)
        call.use_approval(existing)
        if existing is not None:
            self._pipeline.submit(call, plan)
        else:
            self._held.begin(self._ask(call, plan, ask, gate), call)

    async def _ask(self, call: Call, plan: Plan, ask: Ask, gate: str) -> None:
        """Wait for a person's answer, then judge the call from the top: anything may have changed meanwhile."""
        try:
            answer = await while_wanted(call.exchange, self._approvals.settle(call, ask, plan.timeouts.lock_s))
        except Fault as fault:
            answer = Refuse(fault, ask.rule)
        except StoreError as cause:
            answer = Refuse(fault_of(cause), ask.rule)
        if not call.exchange.open:
            return
        call.exchange.on_cancel = None
        if isinstance(answer, Refuse):
            self._pipeline.refuse(call, answer, gate)
        else:
            self._submit_again(call, plan, answer, ask)

    def _submit_again(self, call: Call, plan: Plan, approval: Approval | None = None, ask: Ask | None = None) -> None:
        """Judge a call from the top, with the approval that was given for it, if it still fits."""
        try:
            again = self._pipeline.plan(call.caller, plan.target.kind, plan.name)
        except Fault as fault:
            self._pipeline.refuse(call, unknown_now(fault), "resolve")
            return
        call.use_target(again.target)
        fits = approval is not None and ask is not None and self._approvals.fits(call, approval, ask)
        call.use_approval(approval if fits else None)
        self._pipeline.submit(call, again)

    # After the commit

    def use_up(self, call: Call, plan: Plan, approval: Approval) -> None:
        """Hold a committed call until its approval is used up in the store, and only then send it."""
        self._held.begin(self._use_up(call, plan, approval), call)

    async def _use_up(self, call: Call, plan: Plan, approval: Approval) -> None:
        current: Plan | None = plan
        try:
            taken = await self._approvals.take(approval)
            if taken and call.exchange.open:
                current = await self.judge_again(call, plan)
        except StoreError as cause:
            self._dispatcher.withdraw(call, plan)
            self._pipeline.refuse(call, Refuse(fault_of(cause), approval.source), "commit")
            return
        except BaseException:
            self._dispatcher.withdraw(call, plan)
            raise
        if current is None:
            return
        if taken and call.exchange.open:
            self._dispatcher.send(call, current)
            return
        self._dispatcher.withdraw(call, plan)
        if call.exchange.open:
            # Another call used the approval, or it is void by now: judge this one anew, from the top.
            self._submit_again(call, plan)

    async def judge_again(self, call: Call, plan: Plan) -> Plan | None:
        """The current plan of a call that waited after its checks; None if the gates refuse it now, or ask about it."""
        if self._pipeline.is_current(call, plan):
            return plan
        approval = call.approval
        call.use_approval(None)
        try:
            call.caller.plans.pop((plan.target.kind, plan.name), None)
            plan_now = self._pipeline.plan(call.caller, plan.target.kind, plan.name)
            if plan_now.target.server == call.target.server:
                call.use_target(plan_now.target)
                verdict, gate = await self.full_verdict(call, plan_now)
            else:
                verdict, gate = changed("the tools"), "resolve"
        except Fault as fault:
            verdict, gate = unknown_now(fault), "resolve"
        if isinstance(verdict, Ask) and approval is not None and self._approvals.fits(call, approval, verdict):
            verdict = PASS
            call.use_approval(approval)
        if type(verdict) is Pass:
            return plan_now
        self._dispatcher.withdraw(call, plan)
        if isinstance(verdict, Refuse):
            self._pipeline.refuse(call, verdict, gate)
        else:
            call.start_over(plan.target)
            self._submit_again(call, plan)
        return None
