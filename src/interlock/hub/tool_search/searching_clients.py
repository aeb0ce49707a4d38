"""Clients that search their tools by themselves: they load only names, and fetch definitions when the model asks. For
them a short list would hide tools twice, so they get the whole one (level L0), unless the operator says otherwise.

The one rule: what a client calls itself decides how its list is cut, never what it may see.
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
"""By the name in `clientInfo`, with what it does."""


def list_scope_for(list_scope: ListScope, client_info: bytes | None) -> ListScope:
    """The shelf as this client is shown it. An agent's or profile's own budget or level goes before the table."""
    if not list_scope.by_default or client_info is None or name_of(client_info) not in SEARCHING:
        return list_scope
    return msgspec.structs.replace(list_scope, level="L0", budget=None, by_default=False)


@remembers_short(1024)
def name_of(client_info: bytes) -> str:
    """What a client calls itself; empty where that cannot be read."""
    if len(client_info) > _LONGEST:
        return ""
    try:
        return msgspec.json.decode(client_info, type=_Info).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


_LONGEST: Final = 4096


class _Info(msgspec.Struct):
    name: str = ""
