"""What an author puts around a tool beside its schema: validators of their own, and a time within which it must end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from interlock.protocols.registry.errors import error_data
from interlock.signatures import Problem
from interlock.wire.errors import Fault

Said: TypeAlias = Problem | str | Iterable[Problem | str] | None
ArgumentsCheck: TypeAlias = Callable[[Mapping[str, Any]], Said]
"""A validator of the author's own: takes a call's arguments as the function gets them, says what is wrong with them."""


def found_by(validator: ArgumentsCheck, values: Mapping[str, object]) -> tuple[Problem, ...]:
    """What a validator says, as problems. It may say one thing or several, in words or with the argument named."""
    said = validator(values)
    if said is None:
        return ()
    several = (said,) if isinstance(said, str | Problem) else said
    return tuple(Problem((), one) if isinstance(one, str) else one for one in several)


class Overdue(TimeoutError):
    """A tool did not end within its own time."""

    def __init__(self, tool: str, timeout_s: float) -> None:
        fault = Fault("TIMEOUT", f"{tool} was not done within {timeout_s:g} s")
        super().__init__(fault.message)
        said = error_data(fault, "", tool_name=tool)
        self.detail: dict[str, object] = {
            "name": fault.name,
            "error_type": said.error_type,
            "tool_name": tool,
            "timeout_ms": round(timeout_s * 1000),
            "suggestions": said.suggestions,
        }
        """As "Timeout Response" has it."""
