"""Sends `notifications/mgp.lifecycle` to clients that agreed on it: sessions, and listen streams that asked for it.

A client is notified of the servers that its lists can show. The right is checked with every notification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from interlock.events import Bus, EventFilter, OnDemandSubscriber
from interlock.events.types import Delivery, ServerStateChanged
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.views import Catalog, View
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.health import HUB, timestamp
from interlock.protocols.mgp.lifecycle import CHANGED, StateChanged
from interlock.protocols.mgp.methods import agreed_on

LIMIT: Final = 4096
"""Unread changes kept for clients."""
AT_ONCE: Final = 128
"""Clients notified in one turn of the loop."""

Notify = Callable[[str, bytes], None]


class _Listener(NamedTuple):
    principal: Principal
    view: View
    notify: Notify


class LifecycleNotifier:
    """Notifies clients of servers' states. It costs nothing while there are no clients."""

    def __init__(self, catalog: Catalog, access: Access, bus: Bus) -> None:
        self._catalog = catalog
        self._access = access
        self._listeners: dict[Hashable, _Listener] = {}
        self._reader = OnDemandSubscriber(lambda: bus.subscribe(EventFilter.of(ServerStateChanged), LIMIT), self._send)

    def join(self, client: Hashable, principal: Principal, view: View, dialect: Dialect, notify: Notify) -> bool:
        """Notify a client from now on, if it agreed on `lifecycle`. Returns whether it is notified."""
        if not agreed_on(dialect, "lifecycle"):
            return False
        self._listeners[client] = _Listener(principal, view, notify)
        self._reader.run(True)
        return True

    def leave(self, client: Hashable) -> None:
        """Stop notifying a client."""
        self._listeners.pop(client, None)
        self._reader.run(bool(self._listeners))

    def on_hub_stopping(self) -> None:
        """Tell the clients at addresses of many servers that the hub itself stops."""
        change = StateChanged(HUB, "connected", "draining", "kernel_shutdown", timestamp(datetime.now(UTC)))
        params = msgspec.json.encode(change)
        for listener in list(self._listeners.values()):
            if listener.view.server is None:
                listener.notify(CHANGED, params)

    async def close(self) -> None:
        """Stop notifying."""
        self._listeners.clear()
        await self._reader.close()

    def sees(self, principal: Principal, view: View, server: str) -> bool:
        """Whether a principal may hear of a server at an address."""
        return self._catalog.sees_server(view, server) and self._access.reaches(principal, server)

    async def _send(self, batch: Sequence[Delivery]) -> None:
        for event in batch:
            if not isinstance(event, ServerStateChanged):
                continue  # A client that missed a change asks for the state.
            at = timestamp(datetime.fromtimestamp(event.at / 1e6, UTC))
            change = StateChanged(event.source, event.before, event.after, event.cause, at)
            params = msgspec.json.encode(change)
            for count, (client, listener) in enumerate(list(self._listeners.items()), 1):
                seen = self.sees(listener.principal, listener.view, event.source)
                if seen and client in self._listeners:
                    listener.notify(CHANGED, params)
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)
