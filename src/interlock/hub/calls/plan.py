"""Plans: the verdicts of the gates on a caller and a target, before the arguments are known. They are reused.

A plan is valid for one plan generation and until `valid_until`. No code invalidates plans: the pipeline checks both
when it uses one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from interlock.hub.audit.entries import TargetJudgement
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Caller, CallPipeline, Check, FleetingCheck, Plan, ResultProcessor
from interlock.hub.calls.timeouts import CallTimeouts
from interlock.hub.calls.verdicts import FOREVER, PASS, Ask, Pass, Refuse, Verdict
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.rate_meter import Meter
from interlock.hub.sessions.session import Exchange, SessionCaller
from interlock.wire.errors import Fault

MAX_PLANS: Final = 4096
"""Upper bound for the plans of one caller. Beyond it all are made again, which takes microseconds each."""
MAX_NAME_CHARS: Final = 2_048
"""The plan for a longer name, which only an address of a resource can be, is made for each call."""


class PlanGeneration:
    """Grows with every change that could make a plan wrong: of the policy, the catalog or the configuration.

    It is local to this node. The policy version, which all nodes share, is `hub/approvals/policy_version.py`.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """Make all plans old."""
        self.number += 1


class Gate(Protocol):
    """One check of calls. Gates consume nothing: the dispatcher commits a call."""

    name: str

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """The verdict that needs no arguments."""

    def check(self, target: Target) -> Check | None:
        """The check that needs the arguments; None if there is none for this target.

        It is a `FleetingCheck` where its verdict can change without a new plan generation.
        """


class CallPolicy(Protocol):
    """The gates and settings of the current configuration."""

    @property
    def gates(self) -> Sequence[Gate]:
        """The gates, in the order in which a call passes them."""

    def timeouts_of(self, target: Target) -> CallTimeouts:
        """The timeouts of a target."""

    def processor_of(self, caller: SessionCaller, target: Target) -> ResultProcessor | None:
        """The processor of a target's results for a caller, if there is one."""

    def note_text(
        self,
        caller: SessionCaller,
        server: str,
        method: str,
        then: Callable[[], None] | None = None,
        request: Exchange | Call | None = None,
    ) -> None:
        """A client is about to be given text of a server that answers no call. It counts for taints at once.

        `then` follows once that is stored. `request` is answered if that fails.
        """

    def unknown(self, caller: Caller, kind: TargetKind, name: str) -> Fault:
        """The error for a target that the caller may not see."""

    def meters_of(self, principal: Principal, target: Target) -> tuple[Meter, ...]:
        """The rates that a principal's calls of a target count for."""

    def judged_of(self, target: Target) -> TargetJudgement:
        """Risk and validators of a target, for the audit log."""


def make_plan(
    policy: CallPolicy, pipeline: CallPipeline, caller: Caller, name: str, target: Target, generation: int
) -> Plan:
    """Make the plan for a target that was resolved from `name`, and keep it at the caller."""
    first: Verdict = PASS
    first_gate = ""
    valid_until = FOREVER
    for gate in policy.gates:
        verdict = gate.plan(caller.principal, target)
        if isinstance(verdict, Pass | Refuse):
            valid_until = min(valid_until, verdict.until)
        if type(verdict) is Pass or (type(first) is Ask and type(verdict) is Ask):
            continue
        first, first_gate = verdict, gate.name
        if type(verdict) is not Ask:
            break
    if isinstance(first, Refuse) and first.hidden:
        first = msgspec.structs.replace(first, fault=policy.unknown(caller, target.kind, name))
    named = ((gate.name, gate.check(target)) for gate in policy.gates)
    checks = tuple((gate, check) for gate, check in named if check is not None)
    plan = Plan(
        target,
        first,
        first_gate,
        checks,
        tuple(check for _, check in checks if isinstance(check, FleetingCheck)),
        policy.timeouts_of(target),
        generation,
        name,
        pipeline,
        policy.processor_of(caller, target),
        valid_until,
        policy.meters_of(caller.principal, target),
        policy.judged_of(target),
    )
    if len(name) <= MAX_NAME_CHARS:
        if len(caller.plans) >= MAX_PLANS:
            caller.plans.clear()
        caller.plans[target.kind, name] = plan
    return plan
