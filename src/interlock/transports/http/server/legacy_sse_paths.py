"""The addresses of the transport of revision 2024-11-05: a stream, and the messages that belong to it."""

from __future__ import annotations

import re
from typing import Final

STREAM: Final = re.compile(r"(.*)/sse\Z")
MESSAGES: Final = re.compile(r"(.*)/messages/([A-Za-z0-9_.-]{1,128})\Z")


def mcp_path_of(path: str) -> str | None:
    """The MCP address that a stream or its messages belong to; None for any other path."""
    found = STREAM.match(path) or MESSAGES.match(path)
    return None if found is None else f"{found[1]}/mcp"
