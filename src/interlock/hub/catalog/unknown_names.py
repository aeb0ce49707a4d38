"""Errors for unknown names. An item that the caller may not see gets the same error as one that does not exist."""

from __future__ import annotations

from typing import Final

from interlock.hub.catalog.target import Target, TargetKind
from interlock.wire.errors import Fault

MAX_NAME_CHARS: Final = 1000


class UnusableName(Fault):
    """A name whose item nobody can use now: it is in quarantine, or changed since it was approved."""

    def __init__(self, target: Target, message: str, hint: str, data: dict[str, object]) -> None:
        super().__init__("TOOL_DISABLED", message, hint=hint, data=data)
        self.target = target


def refused_target(kind: TargetKind, name: str, fault: Fault) -> Target:
    """The target of a name that was refused, for the audit log. Without a server where the hub knows none."""
    return fault.target if isinstance(fault, UnusableName) else Target(kind, "", name[:MAX_NAME_CHARS])


def unknown(kind: str, name: str, meant: str | None = None) -> Fault:
    """The error for an unknown tool, prompt or resource. Many clients show a model the message alone."""
    match kind:
        case "tool":
            message = f"Unknown tool: {name[:200]}" + (f"; did you mean `{meant}`?" if meant else "")
            return Fault("TOOL_NOT_FOUND", message, hint="`tools/list` lists the available tools")
        case "prompt":
            return Fault("PROMPT_NOT_FOUND", f"Unknown prompt: {name[:200]}")
        case "channel" | "state":
            return Fault("FEATURE_SET_DISABLED", f"no access to the {kind} {name[:200]}")
        case _:
            return Fault("RESOURCE_NOT_FOUND", "Resource not found", data={"uri": name})
