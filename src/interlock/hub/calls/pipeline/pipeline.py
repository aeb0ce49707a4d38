"""The path of a call through the hub.

    resolve the name -> plan (verdicts without arguments) -> checks (verdicts on the arguments) -> dispatch

A dry run is the same without the last step. The hub asks a person only about calls that no gate refuses. An answered
question, like every retry, starts again from the top.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from interlock.hub.audit.record import COERCED, LATE, MASKED
from interlock.hub.calls.background_tasks import BackgroundTasks, while_wanted
from interlock.hub.calls.call import Call, Caller, Plan
from interlock.hub.calls.dispatch.dispatcher import Dispatcher
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.name_resolution import NameResolution, NotListed
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.plan import CallPolicy, Gate, PlanGeneration, make_plan
from interlock.hub.calls.rates import limited
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.refusal_pacing import SLOWED, RefusalPacing
from interlock.hub.calls.refusals import Refusals, changed, unknown_now
from interlock.hub.calls.server_request import ServerRequestExchange
from interlock.hub.calls.timeouts import work_of
from interlock.hub.calls.verdicts import PASS, Ask, Pass, Refuse, Verdict, Wait, Waited, stricter
from interlock.hub.catalog.target import CLIENT_TARGETS, Approval, Target, TargetKind
from interlock.hub.sessions.session import Exchange
from interlock.hub.store_faults import fault_of
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.protocols.mcp.results import refusal_result
from interlock.protocols.traces import trace_of
from interlock.store import StoreError
from interlock.transports.batching import Batching
from interlock.wire.errors import Fault

MAX_WAITING = 4096
"""Upper bound for calls that wait for a check or an approval."""


class Pipeline:
    """Judges calls and dispatches those that pass."""

    def __init__(
        self,
        names: NameResolution,
        policy: CallPolicy,
        plan_generation: PlanGeneration,
        approvals: CallApprovals,
        dispatcher: Dispatcher,
        recording: Recording,
        findings: ObservedFindings,
    ) -> None:
        self._names = names
        self.policy = policy
        self.plan_generation = plan_generation
        self._approvals = approvals
        self.dispatcher = dispatcher
        self._recording = recording
        self._findings = findings
        self._waiting = BackgroundTasks()
        self._loop = asyncio.get_running_loop()
        self._batching = Batching.of(self._loop)
        self.refusals = Refusals()
        self._refusal_pacing = RefusalPacing()

    @property
    def waiting(self) -> int:
        """Calls that wait for a check or an approval."""
        return len(self._waiting)

    @property
    def gates(self) -> Sequence[Gate]:
        """The gates, in the order in which a call passes them."""
        return self.policy.gates

    def plan(self, caller: Caller, kind: TargetKind, name: str, exchange: Exchange | None = None) -> Plan:
        """The plan for a name. Raises a `Fault` for a name that the caller cannot use.

        The audit log records that the name of an `exchange` was refused. It does not record `NotListed`, since the call
        may wait.
        """
        plan = caller.plans.get((kind, name))
        generation = self.plan_generation.number
        if plan is not None and plan.generation == generation and self._loop.time() < plan.valid_until:
            return plan
        try:
            target = self._names.resolve(caller, kind, name, exchange)
        except NotListed:
            raise
        except Fault as fault:
            if exchange is not None:
                self.record_unresolved(exchange, caller, kind, name, fault)
            raise
        return make_plan(self.policy, self, caller, name, target, generation)

    def plan_call(self, exchange: Exchange, caller: Caller, name: str) -> Plan:
        """The plan for a call of a tool. Raises `NotListed` where the call may wait until its server is listed."""
        plan = self.plan(caller, "tool", name, exchange)
        tool = plan.target.tool
        if tool is not None and tool.only_for is not None:
            self._names.check_audience(exchange, caller, tool)
        return plan

    def record_unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Record that a name was refused."""
        self._recording.unresolved(exchange, caller, kind, name, fault)
        self.refusals.add_unresolved(caller, kind, name, fault)

    def may_call(self, caller: Caller, tool: str) -> bool:
        """Whether some call of a tool may pass the gates; False if they refuse it with any arguments."""
        try:
            return not isinstance(self.plan(caller, "tool", tool).verdict, Refuse)
        except Fault:
            return False

    def reach(self, caller: Caller, kind: TargetKind, name: str, exchange: Exchange | None = None) -> Target:
        """The target of a name, for requests that do not call it. Raises a `Fault` where the caller may not reach it.

        The audit log records the refusal of an `exchange`.
        """
        plan = self.plan(caller, kind, name, exchange)
        if isinstance(plan.verdict, Refuse):
            if exchange is not None:
                self.record_refusal(Call.of(exchange, caller, plan.target), plan.verdict, plan.gate)
            raise plan.verdict.fault
        return plan.target

    def judge(self, call: Call, plan: Plan, waited: Waited | None = None) -> tuple[Verdict, str]:
        """The verdict of the gates, and the gate that gave it. Nothing is used up, so a dry run ends here.

        With `waited`, only the gates after that one judge.
        """
        found, asking = (plan.verdict, plan.gate) if waited is None else (waited.found, waited.asking)
        if found is not PASS and (type(found) is Refuse or type(found) is Wait):
            return found, asking
        for gate, check in plan.checks if waited is None else plan.checks_behind(waited.gate):
            try:
                verdict = check(call)
            except Fault as fault:
                return Refuse(fault, "the arguments cannot be read"), gate
            if verdict is PASS:
                continue
            if type(verdict) is Ask:
                found, asking = stricter(found, asking, verdict, gate)
            elif type(verdict) is Wait:
                return Wait(verdict.work, found, asking), gate
            elif type(verdict) is not Pass:
                return verdict, gate
        if type(found) is not Ask:
            return PASS, ""
        if call.approval is not None and call.approval.answers(every_time=found.every_time):
            return PASS, ""
        try:
            call.arguments  # noqa: B018 - arguments that a person is asked about must be unambiguous
        except Fault as fault:
            return Refuse(fault, "the arguments cannot be read"), asking
        return found, asking

    async def foresee(self, call: Call, plan: Plan) -> tuple[Verdict, str]:
        """The verdict on a call with everything that decides it: gates, approvals, rates, quotas and its server.

        Nothing is used up and nobody is asked. `why` and `tools/validate` end here.
        """
        verdict, gate = await self._judged(call, plan)
        if isinstance(verdict, Ask):
            existing = self._approvals.existing(call, verdict)
            call.use_approval(existing)
            if existing is None:
                return await self._approvals.foreseen(call, verdict), gate
            verdict, gate = await self._judged(call, plan)
        if isinstance(verdict, Pass):
            verdict, gate = limited(plan.meters, self._loop.time()) or verdict, "rates"
        if isinstance(verdict, Pass):
            verdict, gate = self.dispatcher.refusal(call) or verdict, "commit"
        return verdict, gate

    async def _judged(self, call: Call, plan: Plan) -> tuple[Verdict, str]:
        verdict, gate = self.judge(call, plan)
        return await self.waited(call, plan, verdict, gate) if isinstance(verdict, Wait) else (verdict, gate)

    def submit(self, call: Call, plan: Plan) -> None:
        """Judge a call and dispatch it, or answer why not."""
        verdict, gate = self.judge(call, plan)
        if self.dispatcher.late_results.results and self._answers_late(call, plan, verdict):
            return
        if verdict is not PASS:
            self._proceed(call, plan, verdict, gate)
        elif self._batching.running:
            self._batching.then(self.dispatcher.dispatch_if_open, call, plan)
        else:
            self.dispatcher.dispatch(call, plan)

    def ask_client(self, request: ClientRequest) -> asyncio.Future[bytes]:
        """Judge a server's request to a client like any call, and send it once it may be. The caller is the server."""
        kind, name = CLIENT_TARGETS[request.method]
        assert isinstance(request.caller, Caller), "the hub admitted the caller whose client this is"
        caller = request.caller.acting(request.server)
        exchange = ServerRequestExchange(request, caller, self.policy)
        plan = self.plan(caller, kind, name)
        self.submit(
            Call(
                exchange,
                caller,
                plan.target,
                request.params,
                request.trace or trace_of(exchange.request, exchange.preview),
            ),
            plan,
        )
        return exchange.answer

    def _proceed(self, call: Call, plan: Plan, verdict: Verdict, gate: str) -> None:
        if isinstance(verdict, Pass):
            self.dispatcher.dispatch(call, plan)
        elif isinstance(verdict, Refuse):
            self.refuse(call, verdict, gate)
        elif isinstance(verdict, Ask):
            try:
                if self._approvals.resumes(call):
                    return
            except Fault as refused:
                call.exchange.fail(refused)
                return
            existing = self._approvals.existing(call, verdict)
            call.use_approval(existing)
            if existing is not None:
                self.submit(call, plan)
            else:
                self._waiting.begin(self._ask(call, plan, verdict, gate), call)
        elif len(self._waiting) >= MAX_WAITING:
            fault = Fault("RESOURCE_EXHAUSTED", f"{MAX_WAITING} calls wait to be checked", retry_after_ms=1000)
            self.refuse(call, Refuse(fault, "bounds of calls that wait"), gate)
        else:
            self._waiting.begin(self._wait(call, plan, verdict, gate), call)

    def _answers_late(self, call: Call, plan: Plan, verdict: Verdict) -> bool:
        """Whether a call was answered with the result of an identical one whose client had gone."""
        if not isinstance(verdict, Pass | Ask) or call.target.kind != "tool":
            return False
        late = self.dispatcher.late_results.take(call) if self.dispatcher.late_results.results else None
        if late is None:
            return False
        self._recording.found(LATE, call, ["an identical call ran after its client had gone"])
        self.dispatcher.late_results.answer_late(call, plan, late)
        return True

    # Approvals

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
            self.refuse(call, answer, gate)
        else:
            self._submit_again(call, plan, answer, ask)

    def confirm(self, call: Call, plan: Plan) -> bool:
        """Note findings about a committed call. False where its approval must be used up before it is sent."""
        if call.would_refuse:
            self._findings.on_call(call, call.would_refuse)
        for note in call.would_ask:
            note.write(call)
        if call.masked:
            self._recording.found(MASKED, call, sorted(f"masked.{kind}" for kind in call.masked), call.masked)
        if call.coerced:
            self._recording.found(COERCED, call, [f"coerced: {path}"[:200] for path in call.coerced])
        approval = call.approval
        if approval is None or approval.ticket is None:
            return True
        self._waiting.begin(self._use_approval(call, plan, approval), call)
        return False

    async def _use_approval(self, call: Call, plan: Plan, approval: Approval) -> None:
        """The last step of a commit: use the approval up in the store, and only then send the call."""
        current: Plan | None = plan
        try:
            taken = await self._approvals.take(approval)
            if taken and call.exchange.open:
                current = await self.judge_again(call, plan)
        except StoreError as cause:
            self.dispatcher.withdraw(call, plan)
            self.refuse(call, Refuse(fault_of(cause), approval.source), "commit")
            return
        except BaseException:
            self.dispatcher.withdraw(call, plan)
            raise
        if current is None:
            return
        if taken and call.exchange.open:
            self.dispatcher.send(call, current)
            return
        self.dispatcher.withdraw(call, plan)
        if call.exchange.open:
            # Another call used the approval, or it is void by now: judge this one anew, from the top.
            self._submit_again(call, plan)

    def _submit_again(self, call: Call, plan: Plan, approval: Approval | None = None, ask: Ask | None = None) -> None:
        """Judge a call from the top, with the approval that was given for it, if it still fits."""
        try:
            again = self.plan(call.caller, plan.target.kind, plan.name)
        except Fault as fault:
            self.refuse(call, unknown_now(fault), "resolve")
            return
        call.use_target(again.target)
        fits = approval is not None and ask is not None and self._approvals.fits(call, approval, ask)
        call.use_approval(approval if fits else None)
        self.submit(call, again)

    # Checks that take time

    async def waited(self, call: Call, plan: Plan, wait: Wait, gate: str) -> tuple[Verdict, str]:
        """The final verdict of a call, one of whose gates has to wait."""
        ends = self._loop.time() + plan.timeouts.validation_s
        verdict: Verdict = wait
        while isinstance(verdict, Wait):
            wait, verdict = verdict, await work_of(verdict, gate, ends, plan.timeouts.validation_s)
            if isinstance(verdict, Wait):
                verdict = Wait(verdict.work, wait.found, wait.asking)
            elif not isinstance(verdict, Refuse) and self.plan_generation.number != plan.generation:
                verdict = changed("tools, settings or rights")
            elif not isinstance(verdict, Refuse):
                verdict, gate = self.judge(call, plan, wait.ended(gate, verdict))
        return verdict, gate

    async def _wait(self, call: Call, plan: Plan, wait: Wait, gate: str) -> None:
        verdict, gate = await self.waited(call, plan, wait, gate)
        if call.exchange.open and not self._answers_late(call, plan, verdict):
            self._proceed(call, plan, verdict, gate)

    def is_current(self, call: Call, plan: Plan) -> bool:
        """Whether the verdicts that a call passed still hold."""
        current = plan.generation == self.plan_generation.number and self._loop.time() < plan.valid_until
        lasts = all(type(check(call)) is Pass for check in plan.fleeting_checks)
        return current and call.caller.current and lasts

    async def judge_again(self, call: Call, plan: Plan) -> Plan | None:
        """The current plan of a call that waited after its checks; None if the gates refuse it now, or ask about it."""
        if self.is_current(call, plan):
            return plan
        verdict: Verdict = PASS
        approval = call.approval
        call.use_approval(None)
        try:
            call.caller.plans.pop((plan.target.kind, plan.name), None)
            plan_now = self.plan(call.caller, plan.target.kind, plan.name)
            if plan_now.target.server == call.target.server:
                call.use_target(plan_now.target)
                verdict, gate = self.judge(call, plan_now)
            else:
                verdict, gate = changed("the tools"), "resolve"
            if isinstance(verdict, Wait):
                verdict, gate = await self.waited(call, plan_now, verdict, gate)
        except Fault as fault:
            verdict, gate = unknown_now(fault), "resolve"
        if isinstance(verdict, Ask) and approval is not None and self._approvals.fits(call, approval, verdict):
            verdict = PASS
            call.use_approval(approval)
        if type(verdict) is Pass:
            return plan_now
        self.dispatcher.withdraw(call, plan)
        if isinstance(verdict, Refuse):
            self.refuse(call, verdict, gate)
        else:
            call.start_over(plan.target)
            self._submit_again(call, plan)
        return None

    # Refusals

    def refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Answer a call with a refusal, and record it."""
        fault, exchange = refusal.fault, call.exchange
        self.record_refusal(call, refusal, gate)
        if not refusal.hidden:
            fault.add_data(gate=gate, rule=refusal.rule)
        dialect = exchange.dialect
        if fault.kind.as_result and call.target.kind == "tool" and not dialect.rest:
            exchange.result(refusal_result(fault, modern=dialect.modern, error_dialect=dialect.error_dialect))
            return
        slowed, open_calls, now = fault.name in SLOWED, call.caller.open_calls, self._loop.time()
        if slowed and (pause_s := self._refusal_pacing.pause_s(open_calls, now)) > 0:
            self._loop.call_later(pause_s, exchange.fail, fault)
        else:
            exchange.fail(fault)

    def record_refusal(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Record a refusal that its caller answers."""
        self.refusals.add(call, refusal, gate)
        self._recording.refused(call, refusal.fault, gate, refusal.rule)
