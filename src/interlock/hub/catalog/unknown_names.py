"""Errors for unknown names. An item that the caller may not see gets the same error as one that does not exist."""

from __future__ import annotations

from interlock.wire.errors import Fault


def unknown(kind: str, name: str, meant: str | None = None) -> Fault:
    """The error for an unknown tool, prompt or resource. Many clients show a model the message alone."""
    match kind:
        case "tool":
            message = f"Unknown tool: {name[:200]}" + (f"; did you mean `{meant}`?" if meant else "")
            return Fault("TOOL_NOT_FOUND", message, hint="`tools/list` lists the available tools")
        case "prompt":
            return Fault("PROMPT_NOT_FOUND", f"Unknown prompt: {name[:200]}")
        case _:
            return Fault("RESOURCE_NOT_FOUND", "Resource not found", data={"uri": name})
