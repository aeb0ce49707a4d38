"""Builds MCP Live: feature sets, connections that speak MCPL, the intake of events, wakes and deliveries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from interlock.client.connection import Connection
from interlock.config.live_settings import HookSettings, LiveSettings
from interlock.config.settings import ServerSettings
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import ResultProcessor
from interlock.hub.calls.unchanged_results import UNCHANGED
from interlock.hub.catalog.items import Tool
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.foundation import Foundation
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.live.channels import METHODS as CHANNEL_METHODS
from interlock.hub.live.channels import RegisteredChannels
from interlock.hub.live.client_channels import ChannelAnnouncements
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.client_scopes import ClientScopesGate
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.delivery_addresses import EventAddresses
from interlock.hub.live.events.delivery_attachment import EventAttachment
from interlock.hub.live.events.delivery_tools import LiveOffers
from interlock.hub.live.events.documents import DAY_S, now
from interlock.hub.live.events.intake import EventIntake
from interlock.hub.live.events.touch_gate import LiveGate
from interlock.hub.live.events.touches import Touches
from interlock.hub.live.events.usage import EventUsage
from interlock.hub.live.events.wake_chains import WakeChains
from interlock.hub.live.events.wake_webhook import WakeWebhook
from interlock.hub.live.events.wakes import Wakes
from interlock.hub.live.events.webhook_intake import IncomingWebhooks
from interlock.hub.live.features import Features
from interlock.hub.live.scope_elevations import ScopeElevations
from interlock.hub.live.scope_gate import ScopeGate
from interlock.hub.live.server_maskers import ServerMaskers
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.hub.live.server_states import StateGate
from interlock.hub.live.server_texts import ServerTexts
from interlock.protocols.mgp.permissions import Risk
from interlock.store import StoreError


class LiveParts:
    """Everything that servers may start by themselves."""

    def __init__(self, foundation: Foundation, authentication: AuthenticationParts) -> None:
        self._foundation = foundation
        journal, settings = foundation.journal, self._settings
        self.features = Features(lambda: foundation.config)
        self.refusals = RecordedRefusals(journal, time.monotonic)
        addresses = EventAddresses(self.features, authentication.access, self._hook_settings)
        self.touches = Touches(lambda: settings().ask_s, foundation.log)
        self.deliveries = EventDeliveries(addresses, journal, foundation.bus, self.touches)
        self.causes = WakeChains()
        self.webhook = WakeWebhook(
            lambda: settings().webhook, foundation.resolver, lambda: foundation.node, foundation.log
        )
        bus, log = foundation.bus, foundation.log
        self.wakes = Wakes(settings, self.deliveries, self.causes, journal, bus, self.webhook, log)
        self.intake = EventIntake(settings, self.features, self.deliveries, self.wakes, journal)
        self.connections = LiveConnections(self.features, self.refusals, foundation.logs)
        self.hosts = ClientHosts(self.features, self.connections, authentication.access)
        self.connections.updates.follow_with(self.hosts)
        self.texts = ServerTexts(ServerMaskers(lambda: foundation.config), journal)
        self.connections.updates.judge_names_with(self.texts)
        self.offers = LiveOffers(addresses, self.hosts)
        registered = RegisteredChannels(ChannelAnnouncements(self.hosts, self.texts))
        for method in CHANNEL_METHODS:
            self.connections.messages.serve_with(method, registered)
        self.connections.messages.serve_with("push/event", self.intake)
        self.hooks = IncomingWebhooks(self._hook_settings, self.intake, self.refusals)
        self.usage = EventUsage(lambda: foundation.store, self.deliveries, self.refusals)
        self._tasks = BackgroundTasks()
        self._touched: dict[str, asyncio.TimerHandle] = {}
        self._list_changed: Callable[[], None] | None = None

    async def start(self, inbox: Inbox, list_changed: Callable[[], None]) -> None:
        """Load the state of earlier runs. `list_changed` is called when some agents' lists may have changed."""
        foundation = self._foundation
        store = foundation.store
        elevations = ScopeElevations(inbox, self.features, self.scope_hold_s, self._servers, foundation.journal)
        self.connections.messages.serve_with("scope/elevate", elevations)
        await self.features.start(store, self._on_features, self.connections)
        await self.touches.start(store, self)
        await self.deliveries.start(store, foundation.node)
        await self.webhook.start(store)
        await self.wakes.start(store)
        self.intake.start(store)
        self._list_changed = list_changed

    def scope_hold_s(self, server: str) -> float:
        """How long a server's request for a scope waits for a person. One within a call is answered before the call's
        limit, so that the server can end the call itself."""
        config = self._foundation.config
        settings = config.servers.get(server)
        limit = None if settings is None else settings.timeout_s or settings.timeouts.tool_s
        return min(config.hub.approvals.hold_s, (limit or config.hub.timeouts.tool_s) / 2)

    async def close(self) -> None:
        """End everything under way. Waiting events stay in the store."""
        await self.hosts.close()
        await self.connections.close()
        await self.intake.close()
        await self.wakes.close()
        await self.webhook.close()
        for timer in self._touched.values():
            timer.cancel()
        await self.touches.close()
        await self._tasks.close()

    async def sweep(self) -> None:
        """Forget what is old."""
        try:
            await self.deliveries.sweep(self._settings().keep_days * DAY_S)
            await self.intake.prune()
            await self.touches.sweep()
        except StoreError as cause:
            self._foundation.log("hub", f"old events could not be deleted: {cause.for_operators}")

    async def on_greeted(self, server: str, key: str | None, principal: str, connection: Connection) -> None:
        """Agree on MCPL with a server. A private connection speaks for its principal alone."""
        agent = None if key is None else principal.partition(":")[2]
        await self.connections.on_greeted(server, key, agent, connection)
        self.hosts.refresh()

    def on_touched(self, agent: str) -> None:
        """An agent was given text from outside: its calls are planned anew, now and when that no longer counts."""
        self._foundation.plan_generation.advance()
        known = self._touched.pop(agent, None)
        if known is not None:
            known.cancel()
        left_s = self.touches.at(agent) + self._settings().ask_s - now()
        if left_s > 0:
            self._touched[agent] = asyncio.get_running_loop().call_later(left_s + 1.0, self.on_touched, agent)

    def scope_gate(self) -> ScopeGate:
        """The gate for tools of feature sets."""
        return ScopeGate(self.connections, self.features, self._servers)

    def client_scopes_gate(self) -> ClientScopesGate:
        """The gate for scopes that clients set themselves."""
        return ClientScopesGate(self._servers, self.hosts)

    def state_gate(self) -> StateGate:
        """The gate that gives calls of conversations their state."""
        return StateGate(self._servers, self.hosts)

    def gate(self, risk_of: Callable[[Tool], Risk]) -> LiveGate:
        """The gate of the configuration in force."""
        config = self._foundation.config
        return LiveGate(config.hub.mode, config.live.ask_s, self.touches, risk_of, self._foundation.log)

    def with_events(
        self, principal: Principal, server: str, inner: ResultProcessor | None, judging: JudgingThreads
    ) -> ResultProcessor | None:
        """The processor of a principal's results: held events are attached to them, where it gets any."""
        if not self.offers.offered(principal, bare=False):
            return inner
        return EventAttachment(
            principal.id, server, inner or UNCHANGED, self.deliveries, self.causes, judging, self._tasks
        )

    def _on_features(self, server: str) -> None:
        if self.features.entries.unreadable(server):
            self._foundation.log("hub", f"an entry on feature sets of {server} cannot be read, so they are off")
        self.connections.on_features(server)
        self.hosts.refresh()
        if self._list_changed is not None:
            self._list_changed()
            self._tasks.begin(self._withdraw(server), None)

    async def _withdraw(self, server: str) -> None:
        try:
            await self.deliveries.withdraw(server)
        except StoreError as cause:
            self._foundation.log(
                "hub", f"events of {server} could not be withdrawn; nobody gets them: {cause.for_operators}"
            )

    def _servers(self) -> Mapping[str, ServerSettings]:
        return self._foundation.config.servers

    def _hook_settings(self) -> Mapping[str, HookSettings]:
        return self._foundation.config.hooks

    def _settings(self) -> LiveSettings:
        return self._foundation.config.live
