"""The four verdicts of a gate. A gate returns its verdict and never raises it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from interlock.wire.errors import Fault

FOREVER: Final = float("inf")


class Pass(msgspec.Struct, frozen=True):
    """The gate has no objection."""

    until: float = FOREVER
    """When the gate must be asked again, on the clock of the loop."""


PASS: Final = Pass()


class Refuse(msgspec.Struct, frozen=True):
    """The gate refuses the call, with the error for the caller and the rule that decided."""

    fault: Fault
    rule: str
    until: float = FOREVER
    """When the gate must be asked again, on the clock of the loop."""
    hidden: bool = False
    """The caller may not know that the target exists: it gets the error for an unknown name."""


class Ask(msgspec.Struct, frozen=True):
    """A person must approve the call."""

    question: str
    rule: str
    risk: str = ""
    every_time: bool = False
    """Whether no rule answers it: a person is asked about every call."""


class Waited(msgspec.Struct, frozen=True):
    """A gate whose work is done, and the verdict of all gates up to it."""

    gate: str
    found: Verdict
    asking: str


class Wait(msgspec.Struct, frozen=True):
    """The gate needs bounded work off the hot path, which ends in a verdict."""

    work: Callable[[], Awaitable[Verdict]]
    found: Verdict = PASS
    """The verdict of the gates before this one: a pass, or what they ask about."""
    asking: str = ""
    """The gate that asks."""

    def ended(self, gate: str, verdict: Verdict) -> Waited:
        """This wait, once its work ended with a pass or a question of its gate."""
        found, asking = self.found, self.asking
        if type(verdict) is Ask:
            found, asking = stricter(found, asking, verdict, gate)
        return Waited(gate, found, asking)


Verdict: TypeAlias = Pass | Refuse | Ask | Wait


def stricter(found: Verdict, asking: str, verdict: Ask, gate: str) -> tuple[Verdict, str]:
    """Of a verdict so far and a further question, the one to ask a person, with its gate."""
    if type(found) is not Ask or (verdict.every_time and not found.every_time):
        return verdict, gate
    return found, asking
