"""The methods of MCP that a participant answers as a server, beside `initialize` and `ping`."""

from __future__ import annotations

from typing import Final

SERVED_METHODS: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tools/call",
        "tools/list",
    }
)
"""A room has no sessions, so methods that need one are not served."""
