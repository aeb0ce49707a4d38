"""What is known about a principal and a target before the arguments are: computed once, kept while it holds.

A plan holds while the generation it was made in lasts and its time has not run out. Nothing is ever walked
to invalidate plans: an old one is found out when it is next looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.timeouts import CallTimeouts
from interlock.hub.calls.verdicts import FOREVER, PASS, Ask, Pass, Refuse, Verdict, Wait
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.unknown_names import unknown
from interlock.hub.rate_meter import Meter

MOST_PLANS: Final = 4096
"""Plans kept per caller. Beyond that they are all made again, which costs microseconds each."""
LONGEST_NAME: Final = 2_048
"""The plan for a longer name, which only the address of a resource can be, is made for each call."""

Check = Callable[[Call], Verdict]


Finishing = Callable[[Call, bytes, Callable[[bytes], None]], None]
"""Takes a call, its good result, and who is to have it."""


class PlanGeneration:
    """Grows with every change that could make a plan wrong: of the policy, the catalog or the configuration.

    It is local to this node. The policy version, which all nodes share, is `hub/policy_version.py`.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """Something changed."""
        self.number += 1


class Gate(Protocol):
    """One check on the way of a call. Gates are pure: what a call uses up is taken in `commit`."""

    name: str

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """What is known before the arguments are."""

    def check(self, target: Target) -> Check | None:
        """What only the arguments can tell, as a function made for this target; None where there is nothing to ask."""


class Plan(msgspec.Struct):
    """What the gates said, in order."""

    target: Target
    standing: Pass | Refuse | Ask | Wait
    """The first refusal; else the first verdict that was not a pass, or a pass. What is refused is not asked."""
    gate: str
    """The gate that gave it."""
    checks: tuple[tuple[str, Check], ...]
    timeout_s: float
    validation_s: float
    lock_s: float
    """How long the tool, the checks, and the wait for a lock may take."""
    generation: int
    """When it was made."""
    finish: Finishing | None = None
    """What is to be done to its results."""
    valid_until: float = FOREVER
    meters: tuple[Meter, ...] = ()
    """The rates that a call takes from."""
    name: str = ""
    """What the target was asked under, and what made it a target: to plan again after a question was answered."""
    resolve: Callable[[Caller, str], Target] | None = None


class Plans:
    """Makes plans, with the gates of one configuration."""

    def __init__(
        self,
        gates: Sequence[Gate],
        timeouts_of: Callable[[Target], CallTimeouts],
        finish_of: Callable[[Target], Finishing | None] = lambda target: None,
        meters_of: Callable[[Principal, Target], tuple[Meter, ...]] = lambda *_: (),
    ) -> None:
        self._gates = gates
        self._timeouts_of = timeouts_of
        self._finish_of = finish_of
        self._meters_of = meters_of

    def make(self, caller: Caller, name: str, target: Target, generation: int) -> Plan:
        """A new plan for a target that was resolved from `name`."""
        standing: Verdict = PASS
        standing_gate = ""
        valid_until = FOREVER
        for gate in self._gates:
            verdict = gate.plan(caller.principal, target)
            if isinstance(verdict, Pass | Refuse):
                valid_until = min(valid_until, verdict.until)
            if type(verdict) is Pass or (type(standing) is Ask and type(verdict) is Ask):
                continue
            standing, standing_gate = verdict, gate.name
            if type(verdict) is not Ask:
                break
        if isinstance(standing, Refuse) and standing.hidden:
            standing = msgspec.structs.replace(standing, fault=unknown(target.kind, name))
        found = ((gate.name, gate.check(target)) for gate in self._gates)
        checks = tuple((gate, check) for gate, check in found if check is not None)
        timeouts = self._timeouts_of(target)
        plan = Plan(
            target,
            standing,
            standing_gate,
            checks,
            timeouts.tool_s,
            timeouts.validation_s,
            timeouts.lock_s,
            generation,
            self._finish_of(target),
            valid_until,
            self._meters_of(caller.principal, target),
        )
        if len(name) <= LONGEST_NAME:
            if len(caller.plans) >= MOST_PLANS:
                caller.plans.clear()
            caller.plans[target.kind, name] = plan
        return plan
