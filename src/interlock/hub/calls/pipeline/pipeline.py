"""The path of a call through the hub.

    resolve the name -> plan (verdicts without arguments) -> checks (verdicts on the arguments) -> dispatch

A dry run (`dry_run.py`) is the same without the last step. The hub asks a person only about calls that no gate refuses.
An answered question, like every retry, starts again from the top. `held_calls.py` has the calls that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from interlock.hub.audit.record import COERCED, MASKED
from interlock.hub.calls.call import Call, Caller, Plan
from interlock.hub.calls.dispatch.dispatcher import Dispatcher
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.name_resolution import NameResolution, NotListed
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.pipeline.held_calls import HeldCalls
from interlock.hub.calls.pipeline.refusal_answers import RefusalAnswers
from interlock.hub.calls.plan import CallPolicy, Gate, PlanGeneration, make_plan
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.server_request import ServerRequestExchange
from interlock.hub.calls.verdicts import PASS, Ask, Pass, Refuse, Verdict, Wait, Waited, stricter
from interlock.hub.catalog.target import CLIENT_TARGETS, Target, TargetKind
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.protocols.traces import trace_of
from interlock.transports.batching import Batching
from interlock.wire.errors import Fault


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
        self.approvals = approvals
        self.dispatcher = dispatcher
        self._recording = recording
        self._findings = findings
        self._loop = asyncio.get_running_loop()
        self._batching = Batching.of(self._loop)
        self.refusals = RefusalAnswers(recording)
        self.held = HeldCalls(self, plan_generation, approvals, dispatcher, recording)

    @property
    def waiting(self) -> int:
        """Calls that wait for a check or an approval."""
        return len(self.held)

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
                self.refusals.record_unresolved(exchange, caller, kind, name, fault)
            raise
        return make_plan(self.policy, self, caller, name, target, generation)

    def plan_call(self, exchange: Exchange, caller: Caller, name: str) -> Plan:
        """The plan for a call of a tool. Raises `NotListed` where the call may wait until its server is listed."""
        plan = self.plan(caller, "tool", name, exchange)
        tool = plan.target.tool
        if tool is not None and tool.only_for is not None:
            self._names.check_audience(exchange, caller, tool, name)
        return plan

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
                self.refusals.record(Call.of(exchange, caller, plan.target), plan.verdict, plan.gate)
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

    def submit(self, call: Call, plan: Plan) -> None:
        """Judge a call and dispatch it, or answer why not."""
        verdict, gate = self.judge(call, plan)
        if self.dispatcher.late_results.results and self.held.answer_late(call, plan, verdict):
            return
        if verdict is not PASS:
            self.held.proceed(call, plan, verdict, gate)
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
        plan, trace = self.plan(caller, kind, name), request.trace or trace_of(exchange.request, exchange.preview)
        self.submit(Call(exchange, caller, plan.target, request.params, trace), plan)
        return exchange.answer

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
        self.held.use_up(call, plan, approval)
        return False

    def is_current(self, call: Call, plan: Plan) -> bool:
        """Whether the verdicts that a call passed still hold."""
        current = plan.generation == self.plan_generation.number and self._loop.time() < plan.valid_until
        lasts = all(type(check(call)) is Pass for check in plan.fleeting_checks)
        return current and call.caller.current and lasts

    async def judge_again(self, call: Call, plan: Plan) -> Plan | None:
        """The current plan of a call that waited after its checks; None if the gates refuse it now, or ask about it."""
        return await self.held.judge_again(call, plan)

    def refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Answer a call with a refusal, and record it."""
        self.refusals.refuse(call, refusal, gate)
