"""Builds MCP Live: feature sets, connections that speak MCPL, the intake of events, wakes and deliveries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from interlock.client.connection import Connection
from interlock.config.live_settings import Live
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.foundation import Foundation
from interlock.hub.live.addresses import Addresses
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.deliveries import Deliveries
from interlock.hub.live.features import Features
from interlock.hub.live.intake import Intake
from interlock.hub.live.refusals import RecordedRefusals
from interlock.hub.live.usage import Usage
from interlock.hub.live.wakes import Wakes
from interlock.store import StoreError


class LiveParts:
    """Everything that servers may start by themselves."""

    def __init__(self, foundation: Foundation, authentication: AuthenticationParts) -> None:
        self._foundation = foundation
        journal, settings = foundation.journal, self._settings
        self.features = Features()
        self.refusals = RecordedRefusals(journal, time.monotonic)
        self.deliveries = Deliveries(Addresses(self.features, authentication.access), journal)
        self.wakes = Wakes(settings, self.deliveries, journal, foundation.bus, foundation.log)
        self.intake = Intake(settings, self.deliveries, self.wakes, journal)
        self.connections = LiveConnections(self.features, self.intake, self.refusals, foundation.logs)
        self.usage = Usage(lambda: foundation.store, self.deliveries, self.refusals, self.wakes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._list_changed: Callable[[], None] | None = None

    async def start(self, list_changed: Callable[[], None]) -> None:
        """Load everything that an earlier run left. `list_changed` hears that some agents' lists may have changed."""
        store = self._foundation.store
        await self.features.start(store, self._on_features)
        await self.deliveries.start(store, self)
        await self.wakes.start(store)
        self.intake.start(store)
        self._list_changed = list_changed

    async def close(self) -> None:
        """End everything under way. Waiting events stay in the store."""
        await self.connections.close()
        await self.wakes.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Forget what is old."""
        try:
            await self.deliveries.sweep()
            await self.intake.prune()
        except StoreError as cause:
            self._foundation.log("hub", f"old events could not be deleted: {cause}")

    async def on_greeted(self, server: str, key: str | None, owner: str, connection: Connection) -> None:
        """Agree on MCPL with a server. A private connection speaks for its principal alone."""
        await self.connections.on_greeted(server, key, None if key is None else owner.partition(":")[2], connection)

    def on_touched(self, agent: str) -> None:
        """An agent was given an event: its calls are planned anew."""
        self._foundation.plan_generation.advance()

    def _on_features(self, server: str) -> None:
        self.connections.on_features(server)
        if self._list_changed is not None:
            self._list_changed()
            task = asyncio.ensure_future(self._withdraw(server))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _withdraw(self, server: str) -> None:
        try:
            await self.deliveries.withdraw(server)
        except StoreError as cause:
            self._foundation.log("hub", f"events of {server} could not be withdrawn; nobody gets them: {cause}")

    def _settings(self) -> Live:
        return self._foundation.config.live
