"""The way of a call through the hub, on one page.

    resolve the target -> plan (what the gates know of principal and target) -> checks (what only the arguments tell)
      -> commit (what the call uses up) -> dispatch

A dry run is the same without the last two steps. An answered question, and every retry, starts again from the top.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.hub.call import Call, Caller, Target
from interlock.hub.plan import Check, Plan, Plans
from interlock.hub.rates import take
from interlock.hub.refusals import Refusals
from interlock.hub.verdicts import Ask, Pass, Refuse, Verdict, Wait
from interlock.judge.findings import Finding
from interlock.protocols.mcp.results import refusal_result
from interlock.wire.errors import Fault

Resolve = Callable[[Caller, str], Target]
Commit = Callable[[Call], Refuse | None]
Dispatch = Callable[[Call, Plan], None]
WouldRefuse = Callable[[Call, tuple[Finding, ...]], None]
"""Hears of each call that goes out although a stricter mode would have refused it, and what for."""

GATES_TIMEOUT_S = 10.0
"""All gates of one call together, where one of them has to wait for something."""
MOST_WAITING = 4096
"""Calls whose gates wait for something."""


class Pipeline:
    """Judges calls and sends on those that pass."""

    def __init__(
        self,
        plans: Callable[[], Plans],
        stamp: Callable[[], tuple[int, int]],
        commit: Commit,
        dispatch: Dispatch,
        refused: Callable[[Call, Fault, str, str], None],
        would_refuse: WouldRefuse,
    ) -> None:
        self._plans = plans
        self._stamp = stamp
        self._commit = commit
        self._dispatch = dispatch
        self._refused = refused
        self._would_refuse = would_refuse
        self._waiting: set[asyncio.Task[None]] = set()
        self.refusals = Refusals()

    def plan(self, caller: Caller, kind: str, name: str, resolve: Resolve, now: float) -> Plan:
        """The plan for a name as this caller means it. `resolve` raises for a name that means nothing to them."""
        stamp = self._stamp()
        plan = caller.plans.get((kind, name))
        if type(plan) is Plan and plan.stamp == stamp and now < plan.valid_until:
            return plan
        return self._plans().make(caller, name, resolve(caller, name), stamp)

    def judge(self, call: Call, plan: Plan, after: str = "") -> tuple[Verdict, str]:
        """What the gates say of a call, and which of them said it. Nothing is used up: this is also the dry run.

        With `after`, only those behind that gate are asked: it had to wait for something, and has passed the call.
        """
        if type(plan.standing) is not Pass:
            return plan.standing, plan.gate
        for gate, check in _behind(plan, after) if after else plan.checks:
            try:
                verdict = check(call)
            except Fault as fault:
                return Refuse(fault, "the arguments cannot be read"), gate
            if type(verdict) is not Pass:
                return verdict, gate
        return plan.standing, ""

    def submit(self, call: Call, plan: Plan) -> None:
        """Judge a call and send it on, or answer why not."""
        verdict, gate = self.judge(call, plan)
        self._proceed(call, plan, verdict, gate)

    def _proceed(self, call: Call, plan: Plan, verdict: Verdict, gate: str) -> None:
        if type(verdict) is Pass:
            refusal = take(plan.meters, asyncio.get_running_loop().time()) if plan.meters else None
            if refusal is not None:
                self._refuse(call, refusal, "rates")
                return
            refusal = self._commit(call)
            if refusal is None:
                if call.would_refuse:
                    self._would_refuse(call, call.would_refuse)
                self._dispatch(call, plan)
            else:
                self._refuse(call, refusal, "commit")
        elif isinstance(verdict, Refuse):
            self._refuse(call, verdict, gate)
        elif isinstance(verdict, Ask):
            self._refuse(call, _nobody_to_ask(verdict), gate)
        elif isinstance(verdict, Wait):
            if len(self._waiting) >= MOST_WAITING:
                fault = Fault("RESOURCE_EXHAUSTED", f"{MOST_WAITING} calls wait to be checked", retry_after_ms=1000)
                self._refuse(call, Refuse(fault, "bounds of calls that wait"), gate)
                return
            task = asyncio.ensure_future(self._wait(call, plan, verdict, gate))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def waited(self, call: Call, plan: Plan, wait: Wait, gate: str) -> tuple[Verdict, str]:
        """What the gates say in the end, where one of them has to wait for something."""
        verdict, gate = await self._waited_once(call, plan, wait, gate)
        while isinstance(verdict, Wait):
            verdict, gate = await self._waited_once(call, plan, verdict, gate)
        return verdict, gate

    async def _wait(self, call: Call, plan: Plan, wait: Wait, gate: str) -> None:
        verdict, gate = await self.waited(call, plan, wait, gate)
        if call.exchange.open:
            self._proceed(call, plan, verdict, gate)

    async def _waited_once(self, call: Call, plan: Plan, wait: Wait, gate: str) -> tuple[Verdict, str]:
        verdict: Verdict
        try:
            verdict = await asyncio.wait_for(wait.work(), GATES_TIMEOUT_S)
        except TimeoutError:
            verdict = Refuse(Fault("TIMEOUT", f"the {gate} check took too long", retry_after_ms=1000), "gates timeout")
        except Fault as fault:
            verdict = Refuse(fault, "the check could not be made")
        over = asyncio.get_running_loop().time() >= plan.valid_until
        if type(verdict) is Pass and (over or self._stamp() != plan.stamp):
            changed = Fault("SERVER_RESTARTING", "the tools changed while the call was checked", retry_after_ms=100)
            verdict = Refuse(changed, "a call is judged by what holds when it goes out")
        return self.judge(call, plan, gate) if type(verdict) is Pass else (verdict, gate)

    def _refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        fault = refusal.fault
        self.refusals.add(call, refusal, gate)
        self._refused(call, fault, gate, refusal.rule)
        if not refusal.hidden:
            fault.data = {**fault.data, "gate": gate, "rule": refusal.rule}
        if fault.kind.as_result and call.target.kind == "tool" and not call.exchange.dialect.rest:
            dialect = call.exchange.dialect
            call.exchange.result(refusal_result(fault, modern=dialect.modern, tongue=dialect.tongue))
        else:
            call.exchange.fail(fault)


def _behind(plan: Plan, gate: str) -> tuple[tuple[str, Check], ...]:
    names = [name for name, _ in plan.checks]
    return plan.checks[names.index(gate) + 1 :]


def _nobody_to_ask(ask: Ask) -> Refuse:
    fault = Fault("PERMISSION_DENIED", f"{ask.question} Nobody can be asked here.", mend="ask the operator to allow it")
    return Refuse(fault, ask.rule)
