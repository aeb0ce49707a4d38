"""Problems of a value or a definition. Every error that leaves this package is a `SignatureError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]
"""A place in a value, key by key; empty for the value itself."""

MAX_PROBLEMS = 20
"""How many problems one answer names."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem of a value, with the fields of the tool registry's "Error Response Format"."""

    path: Path
    reason: str
    """The expected and the received value: `Pattern mismatch: expected ^[A-Z]$, got 'x'`."""
    expected: str = ""
    got: str = ""
    suggestions: tuple[str, ...] = ()
    """How to fix it, computed from the constraint that failed."""
    keyword: str = ""
    """The JSON Schema keyword that failed, for a program that wants to branch on it."""

    @property
    def field(self) -> str:
        """The path as a reader writes it: `items[0].name`."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{printable(step)}"
        return text

    @property
    def words(self) -> str:
        """The whole problem in one line: `ticker: Pattern mismatch: …; use uppercase letters`."""
        return "; ".join([f"{self.field or 'arguments'}: {self.reason}", *self.suggestions])


class SignatureError(ValueError):
    """The only error of this package; its problems say what is wrong and how to fix it."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class DefinitionError(SignatureError):
    """A function, field or schema that cannot become a tool: its author has to fix it."""


class ArgumentsError(SignatureError):
    """Values that do not fit the signature: its caller has to fix them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        named = (f"{problem.field}: {problem.reason}" if problem.path else problem.reason for problem in problems)
        super().__init__("; ".join(named), problems)


def printable(text: str, limit: int = 200) -> str:
    """A text from a foreign schema as an error may show it: short, and without unprintable characters."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    return cut if cut.isprintable() else repr(cut)[1:-1]


def shown(value: object, limit: int = 60) -> str:
    """Any value as an error may quote it: short and on one line."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys" if value else "{}"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)} items" if value else "[]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[:limit]!r}... ({len(value)} characters)"
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of more than 256 bits"
    if isinstance(value, int | float):
        return repr(value)
    return f"a Python {type(value).__name__}"
