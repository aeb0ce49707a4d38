"""What a gate says. There are four answers, and none of them is made by raising."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from interlock.wire.errors import Fault

FOREVER: Final = float("inf")


class Pass(msgspec.Struct, frozen=True):
    """Nothing against it here."""

    until: float = FOREVER
    """When the question must be asked again, by the loop's clock."""


class Refuse(msgspec.Struct, frozen=True):
    """No, with the error to tell and the rule that decided."""

    fault: Fault
    rule: str
    until: float = FOREVER
    """When the question must be asked again, by the loop's clock."""
    hidden: bool = False
    """The caller may not even know that there is such a thing: it is told what it would be told if there were none."""


class Ask(msgspec.Struct, frozen=True):
    """Only if a person says so."""

    question: str
    rule: str
    risk: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Not known yet: bounded work, off the hot path, that ends in a verdict."""

    work: Callable[[], Awaitable[Verdict]]


Verdict: TypeAlias = Pass | Refuse | Ask | Wait

PASS: Final = Pass()
