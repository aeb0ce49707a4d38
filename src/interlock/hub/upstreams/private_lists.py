"""Tools and resources of private connections: a server may add some for one client, and they belong to its owner.

An item that the shared connection has too is everybody's. The others are listed for the owner of the connection only,
as long as the connection is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.sharing import audience_of
from interlock.wire.errors import Fault

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_TOOLS: Final = "tools/list"
READ: Final = {TOOLS_CHANGED: _TOOLS, "notifications/resources/list_changed": "resources/list"}
"""The lists that are read, by the notification that they changed."""


class PrivateLists:
    """Reads a list of a private connection when its server says that it changed, and then the list for everybody."""

    def __init__(self, current: CurrentSettings, lists: ServerLists, logs: Logs) -> None:
        self._current = current
        self._lists = lists
        self._logs = logs
        self._changed: set[tuple[str, str]] = set()
        """Connections and lists that changed since their reading began."""
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def pending(self) -> int:
        """How many lists the hub reads now, or will read again because they changed meanwhile."""
        return len(self._changed | self._reading.keys())

    def reading(self, audiences: Collection[str]) -> list[asyncio.Task[None]]:
        """The readings of lists of these audiences' connections."""
        return [task for (key, _), task in self._reading.items() if audience_of(key) in audiences]

    def on_changed(self, owner: ConnectionOwner, notification: str = TOOLS_CHANGED) -> None:
        """Read a list of a connection, one reading at a time."""
        which = owner.connection_key, READ[notification]
        self._changed.add(which)
        if which not in self._reading:
            task = self._reading[which] = asyncio.create_task(self._read(owner, which))
            task.add_done_callback(lambda _: self._reading.pop(which, None))

    def on_closed(self, owner: ConnectionOwner) -> None:
        """Offer the items of a connection no longer."""
        for method in READ.values():
            which = owner.connection_key, method
            if (reading := self._reading.get(which)) is not None:
                reading.cancel()
            self._changed.discard(which)
        self._lists.forget(owner.connection_key)

    async def _read(self, owner: ConnectionOwner, which: tuple[str, str]) -> None:
        key, method = which
        while which in self._changed:
            self._changed.discard(which)
            items = await self._listed(owner, method)
            if items is not None:
                set_items = self._lists.set_tools if method == _TOOLS else self._lists.set_resources
                if await set_items(key, items):
                    continue
            # The server may have announced an item for everybody on this connection only.
            await self._lists.again()

    async def _listed(self, owner: ConnectionOwner, method: str) -> list[bytes] | None:
        connection = owner.connection
        if connection is None:
            return None
        try:
            listing = await connection.list_all(method, timeout=self._current.discovery_s)
        except Fault as fault:
            self._logs.add(self._current.id, "hub", f"{method} of a private connection failed: {fault.message}")
            return None
        return [bytes(item) for item in listing.items]
