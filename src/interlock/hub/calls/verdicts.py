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


class Wait(msgspec.Struct, frozen=True):
    """The gate needs bounded work off the hot path, which ends in a verdict."""

    work: Callable[[], Awaitable[Verdict]]


Verdict: TypeAlias = Pass | Refuse | Ask | Wait

PASS: Final = Pass()
