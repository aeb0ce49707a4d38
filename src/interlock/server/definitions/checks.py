"""Checks of a tool beside its schema: validators of the author's own, and a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from interlock.protocols.registry.errors import error_data
from interlock.signatures import Problem
from interlock.wire.errors import Fault

Findings: TypeAlias = Problem | str | Iterable[Problem | str] | None
ArgumentsCheck: TypeAlias = Callable[[Mapping[str, Any]], Findings]
"""A validator: it takes a call's arguments as the function gets them, and returns what is wrong with them."""


def run_check(validator: ArgumentsCheck, values: Mapping[str, object]) -> tuple[Problem, ...]:
    """The findings of a validator as problems. It may return one or several, each a text or an argument with a text."""
    found = validator(values)
    if found is None:
        return ()
    several = (found,) if isinstance(found, str | Problem) else found
    return tuple(Problem((), one) if isinstance(one, str) else one for one in several)


class ToolOverdue(TimeoutError):
    """A tool did not end within its time limit."""

    def __init__(self, tool: str, timeout_s: float) -> None:
        fault = Fault("TIMEOUT", f"{tool} was not done within {timeout_s:g} s")
        super().__init__(fault.message)
        data = error_data(fault, "", tool_name=tool)
        self.detail: dict[str, object] = {
            "name": fault.name,
            "error_type": data.error_type,
            "tool_name": tool,
            "timeout_ms": round(timeout_s * 1000),
            "suggestions": data.suggestions,
        }
        """The members of the registry's "Timeout Response"."""
