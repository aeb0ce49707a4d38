"""What is wrong with a value or a definition. Every error that leaves this room is a `SignatureError`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MAX_PROBLEMS = 20
"""How many problems one answer names; the rest would only repeat them."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing wrong with a value, as the tool registry's "Error Response Format" tells it."""

    path: tuple[str | int, ...]
    """Where in the value, key by key; empty for the value itself."""
    reason: str
    """A sentence with what was expected and what came: `Pattern mismatch: expected ^[A-Z]$, got 'x'`."""
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
            name = step if isinstance(step, int) else printable(step)
            text += f"[{name}]" if isinstance(step, int) else f".{name}" if text else str(name)
        return text

    @property
    def words(self) -> str:
        """All of it in one line, for whoever has to fix it: `ticker: Pattern mismatch: …; use uppercase letters`."""
        return "; ".join([f"{self.field or 'arguments'}: {self.reason}", *self.suggestions])


class SignatureError(ValueError):
    """The only error of this room; its problems say what is wrong and how to fix it."""

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
    """A text out of somebody's schema as an error may show it: nothing hidden in it, and not without end."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    return cut if cut.isprintable() else repr(cut)[1:-1]


def shown(value: object, limit: int = 60) -> str:
    """A value as an error may quote it: short, on one line, and never failing whatever the value is."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys" if value else "{}"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)} items" if value else "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[:limit]!r}... ({len(value)} characters)"
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of more than 256 bits"
    if isinstance(value, int | float):
        return repr(value)
    return f"a Python {type(value).__name__}"
