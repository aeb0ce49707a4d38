"""Tools of private connections: a server may add some for one client (dynamic toolsets), and they belong to its owner.

A tool that the shared connection has too is everybody's. The others are listed for the owner of the connection only, as
long as the connection is open.
"""

from __future__ import annotations

import asyncio

from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.listing import Lists
from interlock.hub.upstreams.logs import Logs
from interlock.wire.errors import Fault


class PrivateLists:
    """Reads the tools of a private connection when its server says that they changed."""

    def __init__(self, current: CurrentSettings, lists: Lists, logs: Logs) -> None:
        self._current = current
        self._lists = lists
        self._logs = logs
        self._changed: set[str] = set()
        """Connections whose list changed since its reading began."""
        self._reading: dict[str, asyncio.Task[None]] = {}

    def on_changed(self, owner: ConnectionOwner) -> None:
        """Read the tools of a connection, one reading at a time."""
        key = owner.connection_key
        self._changed.add(key)
        if key not in self._reading:
            task = self._reading[key] = asyncio.create_task(self._read(owner))
            task.add_done_callback(lambda _: self._reading.pop(key, None))

    def on_closed(self, owner: ConnectionOwner) -> None:
        """Offer the tools of a connection no longer."""
        key = owner.connection_key
        if (reading := self._reading.get(key)) is not None:
            reading.cancel()
        self._changed.discard(key)
        self._lists.forget(key)

    async def _read(self, owner: ConnectionOwner) -> None:
        key = owner.connection_key
        while key in self._changed:
            self._changed.discard(key)
            # The server may have told this client alone of a tool that everybody has.
            await self._lists.again()
            connection = owner.connection
            if connection is None:
                return
            try:
                listing = await connection.list_all("tools/list", timeout=self._current.discovery_s)
            except Fault as fault:
                self._logs.add(
                    self._current.id, "hub", f"the tools of a private connection are unknown: {fault.message}"
                )
                return
            await self._lists.set_for_some(key, [bytes(item) for item in listing.items])
