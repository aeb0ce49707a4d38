"""The way of a call through the hub, on one page.

    resolve the target -> plan (what the gates know of principal and target) -> checks (what only the arguments tell)
      -> commit (what the call uses up) -> dispatch

A dry run is the same without the last two steps. Only what no gate refuses is asked, and an answered question, like
every retry, starts again from the top.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.plan import Check, Plan, PlanGeneration, Plans
from interlock.hub.calls.rates import give_back, take
from interlock.hub.calls.refusal_pacing import SLOWED, RefusalPacing
from interlock.hub.calls.refusals import NO_SUCH_NAME, Refusals
from interlock.hub.calls.timeouts import checks_timed_out
from interlock.hub.calls.verdicts import PASS, Ask, Pass, Refuse, Verdict, Wait
from interlock.hub.catalog.target import Approval, Target
from interlock.hub.store_faults import fault_of
from interlock.judge.findings import Finding
from interlock.protocols.mcp.results import refusal_result
from interlock.store import StoreError
from interlock.transports.batching import Batching
from interlock.wire.errors import Fault

Resolve = Callable[[Caller, str], Target]
Commit = Callable[[Call], Refuse | None]
Dispatch = Callable[[Call, Plan], None]
Release = Callable[[Call], None]
"""Gives back what `commit` took, for a call that was not dispatched after all."""
WouldRefuse = Callable[[Call, tuple[Finding, ...]], None]
"""Hears of each call that goes out although a stricter mode would have refused it, and what for."""

_log = logging.getLogger(__name__)

MOST_WAITING = 4096
"""Calls whose gates wait for something."""


class Pipeline:
    """Judges calls and sends on those that pass."""

    def __init__(
        self,
        plans: Callable[[], Plans],
        plan_generation: PlanGeneration,
        commit: Commit,
        dispatch: Dispatch,
        refused: Callable[[Call, Fault, str, str], None],
        would_refuse: WouldRefuse,
        *,
        release: Release,
        approvals: CallApprovals,
    ) -> None:
        self._plans = plans
        self.plan_generation = plan_generation
        self._commit = commit
        self._dispatch = dispatch
        self._release = release
        self._approvals = approvals
        self._refused = refused
        self._would_refuse = would_refuse
        self._waiting: set[asyncio.Task[None]] = set()
        self._rounds = Batching.of(asyncio.get_running_loop())
        self.refusals = Refusals()
        self._refusal_pacing = RefusalPacing()

    @property
    def held(self) -> int:
        """Calls that wait for something before they can go on."""
        return len(self._waiting)

    def plan(self, caller: Caller, kind: str, name: str, resolve: Resolve, now: float) -> Plan:
        """The plan for a name as this caller means it. `resolve` raises for a name that means nothing to them."""
        generation = self.plan_generation.number
        plan = caller.plans.get((kind, name))
        if plan is not None and plan.generation == generation and now < plan.valid_until:
            return plan
        return self._made(caller, name, resolve)

    def _made(self, caller: Caller, name: str, resolve: Resolve) -> Plan:
        made = self._plans().make(caller, name, resolve(caller, name), self.plan_generation.number)
        made.name, made.resolve = name, resolve
        return made

    def judge(self, call: Call, plan: Plan, after: str = "") -> tuple[Verdict, str]:
        """What the gates say of a call, and which of them said it. Nothing is used up: this is also the dry run.

        With `after`, only those behind that gate are asked: it had to wait for something, and has passed the call.
        """
        standing, asking = plan.standing, plan.gate
        if standing is not PASS and (type(standing) is Refuse or type(standing) is Wait):
            return standing, asking
        for gate, check in _behind(plan, after) if after else plan.checks:
            try:
                verdict = check(call)
            except Fault as fault:
                return Refuse(fault, "the arguments cannot be read"), gate
            if verdict is PASS:
                continue
            if type(verdict) is Ask:
                standing, asking = (verdict, gate) if type(standing) is Pass else (standing, asking)
            elif type(verdict) is not Pass:
                return verdict, gate
        if standing is PASS or type(standing) is Pass or call.approval is not None:
            return PASS, ""
        try:
            call.arguments  # noqa: B018 - what is asked about must mean one thing
        except Fault as fault:
            return Refuse(fault, "the arguments cannot be read"), asking
        return standing, asking

    def submit(self, call: Call, plan: Plan) -> None:
        """Judge a call and send it on, or answer why not."""
        verdict, gate = self.judge(call, plan)
        if verdict is PASS and not self._rounds.running:
            self._go(call, plan)
        elif verdict is PASS:
            self._rounds.then(self._go, call, plan)
        else:
            self._proceed(call, plan, verdict, gate)

    def _go(self, call: Call, plan: Plan) -> None:
        """Commit and dispatch a call that no gate has anything against. Whoever asked is answered, whatever happens."""
        if not call.exchange.open:
            return  # taken back in the meantime
        try:
            refusal = None
            if plan.meters:
                call.metered_at = asyncio.get_running_loop().time()
                refusal = take(plan.meters, call.metered_at)
            if refusal is not None:
                self._refuse(call, refusal, "rates")
                return
            refusal = self._commit(call)
            if refusal is not None:
                give_back(plan.meters, call.metered_at)
                self._refuse(call, refusal, "commit")
                return
            if call.would_refuse:
                self._would_refuse(call, call.would_refuse)
            if call.approval is not None and call.approval.ticket is not None:
                self._later(self._use_approval(call, plan, call.approval))
            else:
                self._dispatch(call, plan)
        except Fault as fault:
            call.exchange.fail(fault)
        except Exception:
            _log.exception("a call to %s could not be sent", call.target.server)
            call.exchange.fail(Fault("INTERNAL_ERROR", "a fault of ours; it was logged"))

    def _proceed(self, call: Call, plan: Plan, verdict: Verdict, gate: str) -> None:
        if type(verdict) is Pass:
            self._go(call, plan)
        elif isinstance(verdict, Refuse):
            self._refuse(call, verdict, gate)
        elif isinstance(verdict, Ask):
            try:
                if self._approvals.resumes(call):
                    return
            except Fault as refused:
                call.exchange.fail(refused)
                return
            call.approval = self._approvals.standing(call, verdict)
            if call.approval is not None:
                self.submit(call, plan)
            else:
                self._later(self._ask(call, plan, verdict, gate))
        elif isinstance(verdict, Wait):
            if len(self._waiting) >= MOST_WAITING:
                fault = Fault("RESOURCE_EXHAUSTED", f"{MOST_WAITING} calls wait to be checked", retry_after_ms=1000)
                self._refuse(call, Refuse(fault, "bounds of calls that wait"), gate)
                return
            self._later(self._wait(call, plan, verdict, gate))

    async def _ask(self, call: Call, plan: Plan, ask: Ask, gate: str) -> None:
        """Have the question answered, then judge again from the top what may have changed in the meantime."""
        asking = asyncio.current_task()

        def cancelled(reason: str) -> None:
            if asking is not None:
                asking.cancel(reason)

        call.exchange.on_cancel = cancelled
        try:
            answer = await self._approvals.settle(call, ask, plan.lock_s)
        except Fault as fault:
            answer = Refuse(fault, ask.rule)
        except StoreError as cause:
            answer = Refuse(fault_of(cause), ask.rule)
        if not call.exchange.open:
            return
        call.exchange.on_cancel = None
        if isinstance(answer, Refuse):
            self._refuse(call, answer, gate)
            return
        self._submit_again(call, plan, answer, ask)

    async def _use_approval(self, call: Call, plan: Plan, approval: Approval) -> None:
        """The last step of a commit: the approval is used up, in the store, before the call goes out."""
        try:
            taken = await self._approvals.take(approval)
        except StoreError as cause:
            self._withdraw(call, plan)
            self._refuse(call, Refuse(fault_of(cause), approval.told), "commit")
            return
        if taken and call.exchange.open:
            self._dispatch(call, plan)
            return
        self._withdraw(call, plan)
        if call.exchange.open:
            # Someone else was quicker with the same call, or its key is gone: it is judged anew, from the top.
            self._submit_again(call, plan)

    def _withdraw(self, call: Call, plan: Plan) -> None:
        """What the call has taken goes back: it did not go out."""
        self._release(call)
        give_back(plan.meters, call.metered_at)

    def _submit_again(self, call: Call, plan: Plan, approval: Approval | None = None, ask: Ask | None = None) -> None:
        """Judge a call from the top, by what holds now; with the approval that was given for it, if it still fits."""
        try:
            assert plan.resolve is not None
            now = asyncio.get_running_loop().time()
            again = self.plan(call.caller, plan.target.kind, plan.name, plan.resolve, now)
        except Fault as fault:
            self._refuse(call, _unknown_now(fault), "resolve")
            return
        call.target = again.target
        fits = approval is not None and ask is not None and self._approvals.fits(call, approval, ask)
        call.approval = approval if fits else None
        self.submit(call, again)

    async def judged_again(self, call: Call, plan: Plan) -> Plan | None:
        """The plan by which a call goes out that had to wait for its server: what held when it came may not hold now.
        None where something is against it by now, which is its answer."""
        caller, now = call.caller, asyncio.get_running_loop().time()
        if plan.generation == self.plan_generation.number and now < plan.valid_until and caller.standing:
            return plan
        assert plan.resolve is not None
        approval, call.approval = call.approval, None
        verdict: Verdict
        try:
            again = self._made(caller, plan.name, plan.resolve)
            verdict, gate = self._judged_as(call, again)
            if isinstance(verdict, Wait):
                verdict, gate = await self.waited(call, again, verdict, gate)
        except Fault as fault:
            verdict, gate = _unknown_now(fault), "resolve"
        if isinstance(verdict, Ask) and approval is not None and self._approvals.fits(call, approval, verdict):
            call.approval, verdict = approval, PASS
        if type(verdict) is Pass:
            return again
        self._withdraw(call, plan)
        self._refuse(call, verdict if isinstance(verdict, Refuse) else _changed(), gate)
        return None

    def _judged_as(self, call: Call, plan: Plan) -> tuple[Verdict, str]:
        """What the gates say of a call that has its place at a server, with what it means by now."""
        if plan.target.server != call.target.server:
            return _changed(), "resolve"
        call.target = plan.target
        return self.judge(call, plan)

    async def waited(self, call: Call, plan: Plan, wait: Wait, gate: str) -> tuple[Verdict, str]:
        """What the gates say in the end, where one of them has to wait for something."""
        ends = asyncio.get_running_loop().time() + plan.validation_s
        verdict: Verdict = wait
        while isinstance(verdict, Wait):
            verdict, gate = await self._waited_once(call, plan, verdict, gate, ends)
        return verdict, gate

    async def _wait(self, call: Call, plan: Plan, wait: Wait, gate: str) -> None:
        verdict, gate = await self.waited(call, plan, wait, gate)
        if call.exchange.open:
            self._proceed(call, plan, verdict, gate)

    async def _waited_once(self, call: Call, plan: Plan, wait: Wait, gate: str, ends: float) -> tuple[Verdict, str]:
        verdict: Verdict
        try:
            async with asyncio.timeout_at(ends):
                verdict = await wait.work()
        except TimeoutError:
            verdict = Refuse(checks_timed_out(gate, plan.validation_s), "all checks of a call have `validation_s`")
        except Fault as fault:
            verdict = Refuse(fault, "the check could not be made")
        if type(verdict) is Pass and self.plan_generation.number != plan.generation:
            verdict = _changed()
        return self.judge(call, plan, gate) if type(verdict) is Pass else (verdict, gate)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def note_refusal(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Keep that a gate said no, for the record and for `why`."""
        self.refusals.add(call, refusal, gate)
        self._refused(call, refusal.fault, gate, refusal.rule)

    def _refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        fault = refusal.fault
        self.note_refusal(call, refusal, gate)
        if not refusal.hidden:
            fault.data = {**fault.data, "gate": gate, "rule": refusal.rule}
        if fault.kind.as_result and call.target.kind == "tool" and not call.exchange.dialect.rest:
            dialect = call.exchange.dialect
            call.exchange.result(refusal_result(fault, modern=dialect.modern, error_dialect=dialect.error_dialect))
        elif fault.name in SLOWED:
            self._fail_slowly(call, fault)
        else:
            call.exchange.fail(fault)

    def _fail_slowly(self, call: Call, fault: Fault) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._refusal_pacing.pause_s(call.caller.load, loop.time())
        if pause_s > 0:
            loop.call_later(pause_s, call.exchange.fail, fault)
        else:
            call.exchange.fail(fault)


def _unknown_now(fault: Fault) -> Refuse:
    """A call's name means nothing to its caller any more, and that is all it is told."""
    return Refuse(fault, str(fault.data.get("rule") or NO_SUCH_NAME), hidden=True)


def _changed() -> Refuse:
    fault = Fault("SERVER_RESTARTING", "the tools changed while the call was checked", retry_after_ms=100)
    return Refuse(fault, "a call is judged by what holds when it goes out")


def _behind(plan: Plan, gate: str) -> tuple[tuple[str, Check], ...]:
    names = [name for name, _ in plan.checks]
    return plan.checks[names.index(gate) + 1 :] if gate in names else plan.checks
