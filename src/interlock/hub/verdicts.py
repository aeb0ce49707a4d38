"""What a gate says. There are four answers, and none of them is made by raising."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from interlock.wire.errors import Fault


class Pass(msgspec.Struct, frozen=True):
    """Nothing against it here."""


class Refuse(msgspec.Struct, frozen=True):
    """No, with the error to tell and the rule that decided."""

    fault: Fault
    rule: str


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
