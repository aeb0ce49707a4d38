"""Errors for unknown names. An item that the caller may not see gets the same error as one that does not exist."""

from __future__ import annotations

from interlock.wire.errors import Fault


def unknown(kind: str, name: str) -> Fault:
    """The error for an unknown tool, prompt or resource."""
    match kind:
        case "tool":
            return Fault("TOOL_NOT_FOUND", f"Unknown tool: {name[:200]}", hint="`tools/list` lists the available tools")
        case "prompt":
            return Fault("PROMPT_NOT_FOUND", f"Unknown prompt: {name[:200]}")
        case _:
            return Fault("RESOURCE_NOT_FOUND", "Resource not found", data={"uri": name})
