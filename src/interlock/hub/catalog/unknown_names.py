"""What a caller is told of something that is not there for it: in the same words, whether it exists or not."""

from __future__ import annotations

from interlock.wire.errors import Fault


def unknown(kind: str, name: str) -> Fault:
    """No such tool, prompt or resource."""
    match kind:
        case "tool":
            return Fault("TOOL_NOT_FOUND", f"Unknown tool: {name[:200]}", hint="tools/list names the tools there are")
        case "prompt":
            return Fault("PROMPT_NOT_FOUND", f"Unknown prompt: {name[:200]}")
        case _:
            return Fault("RESOURCE_NOT_FOUND", "Resource not found", data={"uri": name})
