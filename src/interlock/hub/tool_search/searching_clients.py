"""Clients that search tools by themselves. They get the whole list (level L0), unless the operator sets another level.

The name of a client decides only how the hub shortens its list, never which tools it may see.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.hub.sessions.session import Session, SessionCaller
from interlock.hub.upstreams.sharing import audiences
from interlock.protocols.mcp.dialect import Dialect
from interlock.wire.bounded_cache import cache_short

SEARCHING: Final = {
    "claude-code": "defers the definitions of MCP tools by default and finds them with its own tool search",
    "cursor-vscode": "keeps the definitions of MCP tools in files and reads those that a task needs",
    "qwen-cli-mcp-client-*": "finds MCP tools with its own tool search",
}
"""By the name in `clientInfo`, or its beginning and `*`, with the way each handles tools."""


def scope_of(caller: SessionCaller, dialect: Dialect, session: Session | None) -> ListScope:
    """The list scope of a client's requests: its caller's, for this client and what it declares."""
    return msgspec.structs.replace(
        list_scope_for(caller.list_scope, dialect.client_info),
        audiences=audiences(caller.principal_name, dialect, session),
    )


def list_scope_for(list_scope: ListScope, client_info: bytes | None) -> ListScope:
    """The list scope for a client. A budget or level set for the agent or profile takes precedence."""
    if not list_scope.by_default or client_info is None or not how_it_searches(client_info):
        return list_scope
    return msgspec.structs.replace(list_scope, level="L0", budget=None, by_default=False)


@cache_short(1024)
def how_it_searches(client_info: bytes) -> str:
    """How a client finds tools by itself; empty if it does not, or cannot be read."""
    if len(client_info) > _MAX_BYTES:
        return ""
    try:
        info = msgspec.json.decode(client_info, type=_Info)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "" if info.without_search else how_named(info.name)


def how_named(name: str) -> str:
    """How a client of this name finds tools by itself; empty if it does not."""
    for known, how in SEARCHING.items():
        if name == known or (known.endswith("*") and name.startswith(known[:-1])):
            return how
    return ""


_MAX_BYTES: Final = 4096


class _Info(msgspec.Struct):
    name: str = ""
    without_search: bool = msgspec.field(default=False, name="dev.interlock/withoutSearch")
    """Set by `interlock stdio`: the environment of the client says that its tool search is off."""
