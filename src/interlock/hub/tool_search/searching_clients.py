"""Clients that search tools by themselves. They get the whole list (level L0), unless the operator sets another level.

The name of a client decides only how the hub shortens its list, never which tools it may see.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.wire.bounded_cache import remembers_short

SEARCHING: Final = {
    "claude-code": "defers the definitions of MCP tools by default and finds them with its own tool search",
    "cursor-vscode": "keeps the definitions of MCP tools in files and reads those that a task needs",
}
"""By the name in `clientInfo`, with the way each handles tools."""


def list_scope_for(list_scope: ListScope, client_info: bytes | None) -> ListScope:
    """The list scope for a client. A budget or level set for the agent or profile takes precedence."""
    if not list_scope.by_default or client_info is None or name_of(client_info) not in SEARCHING:
        return list_scope
    return msgspec.structs.replace(list_scope, level="L0", budget=None, by_default=False)


@remembers_short(1024)
def name_of(client_info: bytes) -> str:
    """The name of a client; empty if it cannot be read."""
    if len(client_info) > _MAX_BYTES:
        return ""
    try:
        return msgspec.json.decode(client_info, type=_Info).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


_MAX_BYTES: Final = 4096


class _Info(msgspec.Struct):
    name: str = ""
