"""Which servers take calls as tasks, and to which clients the hub says that it does."""

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
    """Whether a server takes calls of its tools as tasks, in one of the two forms."""
    if peer is None or peer.revision.modern != modern or not (modern or has_tasks(peer.revision)):
        return False
    said: object = msgspec.json.decode(peer.capabilities)
    for member in _NEW if modern else _OLD:
        said = said.get(member) if isinstance(said, Mapping) else None
    return said is not None


def offers_tasks(dialect: Dialect, view: View, peer: Peer | None) -> bool:
    """Whether a client is told that it may have tasks: in a view of one server, if that server takes them in the
    client's own form; in a view of many, always, since there each tool says for itself. Tasks never cross the eras."""
    if not dialect.modern and not has_tasks(dialect.revision):
        return False
    return view.server is None or takes_tasks(peer, modern=dialect.modern)


def with_tasks(offered: dict[str, object], *, modern: bool) -> dict[str, object]:
    """The hub's capabilities, with tasks among them."""
    if not modern:
        return {**offered, "tasks": OLD_CAPABILITY}
    known = offered.get("extensions")
    return {**offered, "extensions": {**(known if isinstance(known, Mapping) else {}), EXTENSION: {}}}
