"""The hub put together from a configuration: every part made once, joined here, and told when that changes."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from pathlib import Path
from typing import Final

from interlock.client.dial import Dial, to_command, to_url
from interlock.config.settings import Config, Server
from interlock.hub.admin.audit_log import AuditLogOperations
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.head import HeadDamaged
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.retention import Pruner
from interlock.hub.audit.server_claims import ServerClaims
from interlock.hub.auth.oauth.token_authentication import TokenAuthentication
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.listings import ListingParts
from interlock.hub.composition.maintenance import Maintenance
from interlock.hub.composition.upstream_events import UpstreamEventRouter
from interlock.hub.foundation import Foundation
from interlock.hub.upstreams.audit_receivers import AuditReceivers
from interlock.hub.upstreams.starts import ADDRESSES, PROCESSES, Starts
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.store import Store, StoreError
from interlock.transports.call_parking import CallParking
from interlock.transports.call_parking import ParkingLimits as ParkingLimits
from interlock.transports.stdio.process import Command
from interlock.wire.limits import Limits

MAINTENANCE_STOP_S: Final = 2.0
"""How long chores under way may take to finish when the hub goes."""
PRUNE_EVERY_S: Final = 3600.0
"""How often it is looked whether records are to go."""
DRAIN_S: Final = 10.0
"""How long calls under way may take to finish when a server or the hub goes."""


class HubApp:
    """A whole hub. Its parts are made in `hub/composition`, and those that others use are named here."""

    def __init__(self, config: Config, home: Path, parking: ParkingLimits | None = None) -> None:
        self.started = time.monotonic()
        self.listen = ""
        """Where HTTP is served, once it is."""
        self.begun = False
        """Whether the store is open and the servers are on their way."""
        self.forwarding: AuditReceivers
        """Sends the record to audit servers. Made by `begin`."""
        self.limits = _limits(config)
        self._parking_limits = parking
        self.parking = CallParking(parking or _parking_limits(config), secrets.token_bytes(32))
        self.process_starts, self.address_starts = Starts(PROCESSES), Starts(ADDRESSES)
        self.upstreams = Upstreams(self._upstream)
        self.counts = Counts()
        """How many calls there were and how long they took."""
        self._foundation = Foundation(config, home)
        self._join(RequestStates(secrets.token_bytes(32)))
        self.audit_operations = AuditLogOperations(self._foundation, self.access)
        self.claims = ServerClaims(lambda: self.recorder, asyncio.get_running_loop().time, self._foundation.note)
        self._host = UpstreamEventRouter(
            self._deciding, self.change_notifier, self.tasks, self.journal, self.claims, self
        )
        self._maintenance = Maintenance()
        self._applying = asyncio.Lock()

    def _join(self, states: RequestStates) -> None:
        """Make the parts, each on those before it."""
        foundation, upstreams, parking = self._foundation, self.upstreams, self.parking
        catalog = Catalog(foundation.policy_version.advance)
        admitting = self._admitting = AuthenticationParts(foundation, catalog, lambda: self.listen)
        deciding = self._deciding = ApprovalParts(
            foundation,
            admitting,
            upstreams,
            parking,
            states,
            judge=lambda offer: self._showing.quarantine.take(offer),
            show=lambda offer: self._showing.show(offer),
        )
        showing = self._showing = ListingParts(foundation, admitting, deciding, catalog, upstreams)
        calling = self._calling = CallParts(
            foundation, admitting, deciding, showing, upstreams, parking, states, self.limits
        )
        self.home, self.logs, self.policy_version, self.journal = (
            foundation.home,
            foundation.logs,
            foundation.policy_version,
            foundation.journal,
        )
        self.keys, self.key_operations, self.rates = admitting.keys, admitting.key_operations, admitting.rates
        self.grants, self.access, self.access_methods = admitting.grants, admitting.access, admitting.access_methods
        self.authenticator, self.audience = admitting.authenticator, admitting.audience
        self.inbox, self.notifiers, self.server_policies = deciding.inbox, deciding.notifiers, deciding.server_policies
        self.permissions, self.permission_operations = deciding.permissions, deciding.permission_operations
        self.catalog, self.tokens, self.listings = showing.catalog, showing.tokens, showing.listings
        self.change_notifier, self.search, self.discovery_tools = (
            showing.change_notifier,
            showing.search,
            showing.discovery_tools,
        )
        self.gate_chain, self.judging, self.noticed = calling.gate_chain, calling.judging, calling.noticed
        self.recording, self.tasks, self.spans = calling.recording, calling.tasks, calling.spans
        self.hub, self.service = calling.hub, calling.service

    @property
    def config(self) -> Config:
        """What the operator wrote, as it holds now."""
        return self._foundation.config

    @config.setter
    def config(self, config: Config) -> None:
        self._foundation.config = config

    @property
    def store(self) -> Store:
        """What survives. Opened by `begin`."""
        return self._foundation.store

    @property
    def recorder(self) -> Recorder:
        """What happened. Opened by `begin`."""
        return self._foundation.recorder

    @property
    def node(self) -> str:
        """What this hub's chain of records is called."""
        return self._foundation.node

    @property
    def oauth(self) -> TokenAuthentication | None:
        """Access tokens, where the operator accepts them."""
        return self._admitting.oauth

    async def begin(self) -> None:
        """Open the store, and start every server at the same time, waiting for none of them."""
        head = await self._foundation.begin()
        recorder, node = self.recorder, self.node
        self.recording.recorder = recorder
        if self.config.hub.metrics != "off":
            recorder.follow(self.counts.take)
        recorder.follow(lambda records: self.audience.on_records(node, records))
        pruner = Pruner(self.store, recorder, head)
        self.forwarding = AuditReceivers(recorder, self.store, self._foundation.note)
        await self._admitting.begin(self._showing.access_changed, self._end_streams)
        await self.tasks.ledger.begin(self.store)
        await self._deciding.begin()
        self._showing.begin()
        await self.apply(self.config)
        self.begun = True
        self._maintenance.look(self._reap)
        self._maintenance.periodic_task(self.inbox.sweep)
        self._maintenance.periodic_task(self.tasks.sweep)
        self._maintenance.periodic_task(self._admitting.note_uses)
        self._maintenance.periodic_task(lambda: self._prune(pruner), PRUNE_EVERY_S)
        self._maintenance.begin()

    async def apply(self, config: Config) -> list[str]:
        """Take over a configuration. Calls under way are not dropped; servers that did not change are not touched."""
        async with self._applying:
            self.config = config
            self.limits = _limits(config)
            self.parking.bound(self._parking_limits or _parking_limits(config))
            self._calling.renew(config)
            self.gate_chain.renew(config)
            enabled = {id_: server for id_, server in config.servers.items() if server.enabled}
            self.catalog.arrange(enabled, config.profiles)
            self.policy_version.advance()
            self.authenticator.forget()
            await self._admitting.renew()
            await self._showing.quarantine.apply(config)
            changed = await self.upstreams.apply(enabled, config.hub.timeouts, DRAIN_S)
            await self.permissions.apply()
            await self._showing.remember(changed)
            self._showing.tell()
            return changed

    async def end(self) -> None:
        """End everything, calls under way first."""
        self._maintenance.rest()
        await self._showing.rest()
        await self._deciding.close()
        await self._admitting.close()
        await self._showing.close()
        await self.hub.close()
        await self.upstreams.end(DRAIN_S)
        await self._maintenance.close(MAINTENANCE_STOP_S)
        await self._admitting.note_uses()
        await self.forwarding.close()
        await self.recorder.close()
        await self._calling.close()
        self._showing.quarantine.close()
        await self.store.close()
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)

    def _upstream(self, id: str, settings: Server) -> Upstream:
        starts = self.process_starts if settings.url is None else self.address_starts
        return Upstream(id, settings, self.config.hub, dial_for(settings, self.limits), starts, self.logs, self._host)

    def on_connected(self, upstream: Upstream) -> None:
        """Send audit records to a server that was just connected, if it wants them."""
        self.forwarding.connected(upstream)

    async def _prune(self, pruner: Pruner) -> None:
        try:
            gone = await pruner.prune(self.config.hub.retention)
        except (StoreError, HeadDamaged) as cause:
            self._foundation.note("hub", f"old records could not be cut off: {cause}")
            return
        if gone:
            self._foundation.note("hub", f"{gone} records were cut off, as the retention settings say")

    def _end_streams(self) -> None:
        """Those of credentials that are worth nothing any more."""
        self.hub.subscriptions.end_streams_of_revoked(lambda principal: self.access.rights(principal) is not None)

    def _reap(self, now: float) -> None:
        self._end_streams()
        for upstream in self.upstreams:
            upstream.reap_private_connections(now)
        if self.oauth is not None:
            self.oauth.tick()


def dial_for(settings: Server, limits: Limits) -> Dial:
    """How a server of the configuration is reached."""
    if settings.url is not None:
        return to_url(settings.url, settings.headers, limits)
    inherited = {name: os.environ[name] for name in settings.inherit_env if name in os.environ}
    return to_command(Command(settings.command, {**inherited, **settings.env}, settings.cwd), limits)


def _parking_limits(config: Config) -> ParkingLimits:
    limits = config.hub.limits
    return ParkingLimits(
        parked=limits.parked,
        per_owner=limits.parked_per_agent,
        seconds=limits.parked_s,
        held_bytes=limits.parked_bytes,
    )


def _limits(config: Config) -> Limits:
    limits = config.hub.limits
    return Limits(message_bytes=limits.message_bytes, depth=limits.depth, pending=limits.pending_per_server)
