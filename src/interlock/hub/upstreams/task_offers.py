"""Which servers take calls as tasks, and to which clients the hub offers tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.client.peer import Peer
from interlock.hub.catalog.views import View
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.tasks import EXTENSION, OLD_CAPABILITY, has_tasks

_OLD: Final = ("tasks", "requests", "tools", "call")
_NEW: Final = ("extensions", EXTENSION)


def takes_tasks(peer: Peer | None, *, modern: bool) -> bool:
    """Whether a server takes tool calls as tasks, in the form of one era."""
    if peer is None or peer.revision.modern != modern or not (modern or has_tasks(peer.revision)):
        return False
    declared: object = msgspec.json.decode(peer.capabilities)
    for member in _NEW if modern else _OLD:
        declared = declared.get(member) if isinstance(declared, Mapping) else None
    return declared is not None


def offers_tasks(dialect: Dialect, view: View, peer: Peer | None) -> bool:
    """Whether the hub offers tasks to a client. Tasks never cross the eras.

    In a view of one server, the hub offers them if that server takes them in the client's form. In a view of many it
    always does, as each tool there declares whether it takes them.
    """
    if not dialect.modern and not has_tasks(dialect.revision):
        return False
    return view.server is None or takes_tasks(peer, modern=dialect.modern)


def with_tasks(offered: dict[str, object], *, modern: bool) -> dict[str, object]:
    """Add tasks to the hub's capabilities."""
    if not modern:
        return {**offered, "tasks": OLD_CAPABILITY}
    known = offered.get("extensions")
    return {**offered, "extensions": {**(known if isinstance(known, Mapping) else {}), EXTENSION: {}}}
