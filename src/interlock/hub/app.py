"""The composition root: a hub with all its parts, which it starts, stops, and applies new configurations to.

`hub/composition/parts.py` builds the parts. Periodic work is added in `_add_periodic_work`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from interlock.config.settings import Config
from interlock.hub.audit.head import HeadDamaged
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.retention import Pruner
from interlock.hub.auth.oauth.token_authentication import TokenAuthentication
from interlock.hub.composition.maintenance import Maintenance
from interlock.hub.composition.parts import HubParts, message_limits, parking_limits
from interlock.hub.composition.service import session_limits
from interlock.hub.live.feature_entry import FEATURES
from interlock.hub.store_faults import unreadable
from interlock.hub.upstreams.audit_receivers import AuditReceivers
from interlock.process.task_set import TaskSet
from interlock.store import TAKEN, Store, StoreError
from interlock.transports.requests.call_parking import ParkingLimits as ParkingLimits
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

MAINTENANCE_STOP_S: Final = 2.0
"""How long periodic tasks may take to finish when the hub stops."""
PRUNE_EVERY_S: Final = 3600.0
"""How often old audit records are pruned."""


class HubApp(HubParts):
    """A whole hub."""

    def __init__(self, config: Config, home: Path, parking: ParkingLimits | None = None) -> None:
        super().__init__(config, home, parking)
        self.hub.clients.resumable.read(home)
        self.forwarding: AuditReceivers
        """Forwards the audit log to audit servers. Made by `start`."""
        self._parking_limits = parking
        self._maintenance = Maintenance()
        self._applying = asyncio.Lock()
        self._configured = config
        """The configuration without the registered servers."""
        self._registering = TaskSet()

    @property
    def config(self) -> Config:
        return self._foundation.config

    @config.setter
    def config(self, config: Config) -> None:
        self._foundation.config = config

    @property
    def store(self) -> Store:
        return self._foundation.store

    @property
    def recorder(self) -> Recorder:
        return self._foundation.recorder

    @property
    def is_started(self) -> bool:
        """Whether the store is open and the servers are starting."""
        return self.readiness.is_started

    @property
    def refusal(self) -> tuple[str, Fault] | None:
        """Why the hub would refuse every call now: one word for it, and the fault that callers get."""
        return self.readiness.refusal

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Problems that an operator must know of at once, each with a hint."""
        found = []
        if self.is_started and (refusal := self.refusal) is not None and refusal[0] != "stopping":
            unwritten = self.recorder.write_error if refusal[0] == "audit" else None
            found.append((f"every call is refused: {refusal[1].for_operators}", (unwritten or refusal[1]).hint))
        if self.is_started and (tampering := self.recorder.resumed.tampering):
            hint = "run `interlock audit verify`, keep a copy of the store, and compare it with a backup"
            found.append((tampering, hint))
        if self.is_started and (holder := self.store.feed.holder) is not None:
            found.append((f"another hub has taken the node {self.node!r} of this store: {holder}", TAKEN))
        entries = unreadable(self.store, FEATURES.name) if self.is_started else []
        return found + entries + self.live.features.entries.warnings

    @property
    def resolver(self) -> Resolver:
        """Resolves the names of other machines."""
        return self._foundation.resolver

    def maintain(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Run periodic work of a layer above, while the hub runs. It handles its own failures."""
        self._maintenance.add_task(work, every_s)

    @property
    def node(self) -> str:
        """The name of this hub's audit chain."""
        return self._foundation.node

    @property
    def oauth(self) -> TokenAuthentication | None:
        """Access tokens, if the configuration accepts any."""
        return self._authentication.oauth

    async def start(self) -> None:
        """Open the store and begin to start the servers, without waiting for them."""
        head = await self._foundation.open()
        recorder = self.recorder
        pruner = Pruner(self.store, recorder, head)
        self.forwarding = AuditReceivers(recorder, self.store, self._foundation.log, self.bus, self.upstreams)
        await self._authentication.start(self._listings.access_changed, self._end_streams)
        await self.tasks.ledger.begin(self.store)
        await self._approvals.start()
        self._tool_search.requests.begin()
        self._list_notifications.start()
        self._listings.quarantine.begin(self.store)
        await self.live.start(self.inbox, self._listings.access_changed)
        await self.registrations.start(self.store, self._register)
        await self.apply(self.config)
        await self.hub.clients.resumable.start(self.home, self._foundation.log)
        self.readiness.begin()
        self._add_periodic_work(pruner)
        self._maintenance.start()
        self.health_monitor.start()

    def _add_periodic_work(self, pruner: Pruner) -> None:
        """Add checks, which are quick, and tasks, which wait for something. Each runs at every tick, or less often."""
        self._maintenance.add_check(self._reap)
        self._maintenance.add_check(self._note_principals)
        self._maintenance.add_task(self.inbox.sweep)
        self._maintenance.add_task(self.tasks.sweep)
        self._maintenance.add_task(self.live.sweep)
        self._maintenance.add_task(self.registrations.sweep)
        self._maintenance.add_task(self.taints.sweep)
        self._maintenance.add_task(self.hub.clients.resumable.touch, 60.0)
        self._maintenance.add_task(self._authentication.store_uses)
        self._maintenance.add_task(lambda: self._prune(pruner), PRUNE_EVERY_S)

    async def apply(self, config: Config) -> list[str]:
        """Apply a configuration. Open calls continue; unchanged servers are not touched."""
        async with self._applying:
            self._configured = config
            await asyncio.to_thread(self.registrations.write_scripts)
            self.config = config = self.registrations.merged(config)
            self.limits = message_limits(config)
            self.parking.bound(self._parking_limits or parking_limits(config))
            self._calls.reload(config)
            self.hub.clients.bound(session_limits(config))
            self.recorder.show_arguments(config.audit.arguments == "redacted")
            enabled = {id_: server for id_, server in config.servers.items() if server.enabled}
            self.catalog.arrange(enabled, config.profiles)
            self.plan_generation.advance()
            self.authenticator.forget()
            await self._authentication.reload()
            await self._listings.quarantine.apply(config)
            changed = await self.upstreams.apply(enabled, config.hub.timeouts)
            self.plan_generation.advance()  # Plans made meanwhile may be of settings before.
            await self.permissions.apply()
            self.live.connections.reload()
            await self._listings.starting_servers.on_configured(changed)
            await self._list_notifications.notify()
            self._registration.packages.install(self.registrations.list(), self._register)
            return changed

    def drain(self) -> None:
        """Tell clients that the hub stops, and refuse new work. Call `stop` when the open calls are done."""
        self.readiness.stop()
        refusal = self.readiness.refusal
        assert refusal is not None, "a hub that stops refuses every call"
        self.hub.drain(refusal[1])
        self._listings.lifecycle_notifier.on_hub_stopping()

    def _register(self) -> None:
        """Apply the configuration again, with the registrations as they are now."""
        self._registering.begin(self.apply(self._configured))

    async def stop(self) -> None:
        """Stop everything, open calls first."""
        await self.login_parts.close()
        await self.registrations.close()
        await self._registering.settled()
        self._maintenance.stop()
        await self.health_monitor.close()
        await self._list_notifications.close()
        await self._listings.close()
        await self.search.close()
        await self._approvals.close()
        await self._authentication.close()
        await self._tool_search.close()
        await self.hub.close()
        await self.hub.clients.resumable.close()
        await self.live.close()
        await self.upstreams.end()
        await self._maintenance.close(MAINTENANCE_STOP_S)
        await self._authentication.store_uses()
        await self.forwarding.close()
        await self.recorder.close()
        await self._calls.close()
        self._listings.quarantine.close()
        await self.store.close()
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)

    async def _prune(self, pruner: Pruner) -> None:
        try:
            pruned = await pruner.prune(self.config.hub.retention)
        except (StoreError, HeadDamaged) as cause:
            why = cause.for_operators if isinstance(cause, StoreError) else cause
            self._foundation.log("hub", f"old audit records could not be pruned: {why}")
            return
        if pruned:
            self._foundation.log("hub", f"{pruned} audit records were pruned, as [hub.retention] says")

    def _end_streams(self) -> None:
        """End the sessions and streams of revoked and expired credentials."""
        self.hub.clients.end_revoked(lambda principal: self.access.rights(principal) is not None)

    def _note_principals(self, now: float) -> None:
        """Note which principals made requests since the last tick."""
        self.hub.clients.principals.collect(self.authenticator.callers)

    def _reap(self, now: float) -> None:
        self._end_streams()
        for upstream in self.upstreams:
            upstream.reap_private_connections(now)
        if self.oauth is not None:
            self.oauth.tick()
