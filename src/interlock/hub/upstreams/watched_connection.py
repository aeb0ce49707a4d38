"""Watches the connection to a server while it is open, and lists the server again when its lists change."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from interlock.client.connection import Connection
from interlock.hub.upstreams.commands import Supervised
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.listing import ServerLists
from interlock.wire.errors import Fault

RELIST_EVERY_S: Final = 1.0
"""The hub lists a server whose lists keep changing at most this often, one listing at a time."""


async def watch_connection(
    upstream: Supervised,
    current: CurrentSettings,
    lists: ServerLists,
    connection: Connection,
    ended: asyncio.Future[Fault],
) -> Fault | None:
    """Watch until the connection ends. Returns its failure, or None once an on-demand server is idle for too long."""
    loop = asyncio.get_running_loop()
    changed = lists.changed
    while not ended.done():
        relist = asyncio.ensure_future(changed.wait())
        either: set[asyncio.Future[Any]] = {ended, relist}
        patience = current.timeouts.idle_s if current.server.start == "on-demand" else None
        try:
            await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            relist.cancel()
        if ended.done():
            break
        if not changed.is_set():
            busy = upstream.open_calls or upstream.tasks
            if not busy and loop.time() - upstream.last_use >= current.timeouts.idle_s:
                return None
            continue
        began = loop.time()
        await lists.read(connection)
        # The pause counts from the start of the listing, so that a slow listing does not delay the next.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, began + RELIST_EVERY_S - loop.time())):
                await asyncio.shield(ended)
    return ended.result()
