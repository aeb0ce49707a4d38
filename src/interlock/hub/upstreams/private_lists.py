"""Tools and resources of private connections: a server may add some for one client, and they belong to its owner.

An item that the shared connection has too is everybody's. The others are listed for the owner of the connection only,
as long as the connection is open.
"""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.listing import Lists
from interlock.hub.upstreams.logs import Logs
from interlock.wire.errors import Fault

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
READ: Final = {TOOLS_CHANGED: "tools/list", "notifications/resources/list_changed": "resources/list"}
"""The lists that are read, by the notification that they changed."""


class PrivateLists:
    """Reads a list of a private connection when its server says that it changed."""

    def __init__(self, current: CurrentSettings, lists: Lists, logs: Logs) -> None:
        self._current = current
        self._lists = lists
        self._logs = logs
        self._changed: dict[str, dict[str, None]] = {}
        """By connection, the lists that changed since their reading began."""
        self._reading: dict[str, asyncio.Task[None]] = {}

    def on_changed(self, owner: ConnectionOwner, notification: str = TOOLS_CHANGED) -> None:
        """Read a list of a connection, one reading at a time."""
        key = owner.connection_key
        self._changed.setdefault(key, {})[READ[notification]] = None
        if key not in self._reading:
            task = self._reading[key] = asyncio.create_task(self._read(owner))
            task.add_done_callback(lambda _: self._reading.pop(key, None))

    def on_closed(self, owner: ConnectionOwner) -> None:
        """Offer the items of a connection no longer."""
        key = owner.connection_key
        if (reading := self._reading.get(key)) is not None:
            reading.cancel()
        self._changed.pop(key, None)
        self._lists.forget(key)

    async def _read(self, owner: ConnectionOwner) -> None:
        key = owner.connection_key
        while changed := self._changed.pop(key, None):
            # The server may have told this client alone of an item that everybody has.
            await self._lists.again()
            connection = owner.connection
            if connection is None:
                return
            try:
                for method in changed:
                    listing = await connection.list_all(method, timeout=self._current.discovery_s)
                    items = [bytes(item) for item in listing.items]
                    if method == "tools/list":
                        await self._lists.set_for_some(key, items)
                    else:
                        await self._lists.set_resources(key, items)
            except Fault as fault:
                self._logs.add(
                    self._current.id, "hub", f"a list of a private connection could not be read: {fault.message}"
                )
                return
