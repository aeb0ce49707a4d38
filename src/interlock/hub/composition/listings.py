"""Builds the lists for clients: the catalog, tool search, and notifications of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from interlock.events import EventFilter, SubscriberTask
from interlock.events.types import Delivery, ListChanged, now_us
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.quarantine import Quarantine
from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.foundation import Foundation
from interlock.hub.handlers.event_subscriptions import EventSubscriptions
from interlock.hub.handlers.lifecycle_notifier import LifecycleNotifier
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.creations import ToolCreations
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.embeddings import EmbeddingCache
from interlock.hub.tool_search.instructions import section
from interlock.hub.tool_search.learning import UsageLearning
from interlock.hub.tool_search.list_forms import ListForms
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.hub.tool_search.requested_tools import RequestedTools
from interlock.hub.tool_search.requests import ToolRequests
from interlock.hub.tool_search.search import ToolSearch
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.hub.tool_search.starting_servers import StartingServers
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.tool_search.tool_summaries import ToolSummaries
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.hub.upstreams.server_event_subscriptions import ServerEventSubscriptions
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstreams import Upstreams

NOTIFY_DELAY_S: Final = 0.05
"""Changes of the catalog within this time share one notification."""


class ListingParts:
    """Everything that depends on the catalog."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        calls: CallParts,
        catalog: Catalog,
        upstreams: Upstreams,
        live: LiveParts,
        registrations: Registrations,
    ) -> None:
        self._foundation = foundation
        self._authentication = authentication
        self._approvals = approvals
        self._upstreams = upstreams
        self.catalog = catalog
        risk_of, needs = approvals.server_policies.risk_of, approvals.permissions.needs
        self.tokens = TokenCounts(self.changed)
        self.listings = ToolListings(catalog, self.tokens, authentication.access, approvals.deferred, live.offers)
        secured = SecurityListing(catalog, approvals.server_policies.risk, needs)
        self.forms = ListForms(secured, foundation.plan_generation)
        self.bus = foundation.bus
        self.change_notifier = ChangeNotifier(catalog, self.listings, self.bus)
        self.lifecycle_notifier = LifecycleNotifier(catalog, authentication.access, self.bus)
        self.server_event_subscriptions = ServerEventSubscriptions(upstreams, self.bus, foundation.log)
        self.event_subscriptions = EventSubscriptions(
            authentication.access,
            self.lifecycle_notifier,
            self.server_event_subscriptions,
            self.bus,
            calls.gate_chain,
        )
        self.quarantine = Quarantine(foundation.config, self._offered, foundation.log)
        self.starting_servers = StartingServers(
            upstreams,
            catalog,
            authentication.access,
            approvals.permissions,
            self.quarantine,
            lambda: foundation.config,
            lambda: foundation.store,
        )
        self.meaning = EmbeddingCache(
            lambda: foundation.config.hub.embeddings,
            foundation.home,
            lambda: foundation.store,
            foundation.resolver,
            foundation.log,
        )
        self.search = ToolSearch(
            catalog,
            self.tokens,
            self.meaning,
            self._connected,
            lambda: foundation.config.hub.timeouts.lock_s,
            risk_of,
            lambda server: (approvals.server_policies.trust_of(server), approvals.permissions.declared(server)),
            UsageLearning(lambda: foundation.store, foundation.log),
        )
        summaries = ToolSummaries(catalog, self.tokens, self.search.status, risk_of, needs)
        contexts = Contexts(self.listings)
        self._request_tasks = BackgroundTasks()
        self.requests = ToolRequests(
            approvals.inbox,
            authentication.access_methods,
            self._request_tasks,
            risk_of,
            foundation.log,
            ToolCreations(registrations, lambda: foundation.config, lambda: foundation.store),
            RequestedTools(self.listings, summaries, contexts, self.bus),
        )
        self.discovery_tools = DiscoveryTools(
            catalog,
            self.listings,
            self.search,
            self.tokens,
            summaries,
            self.requests,
            calls.pipeline,
            contexts,
        )
        self.recorded_requests = RecordedRequests(authentication.rates, calls.recording)
        self._changes = self.bus.subscribe(EventFilter.of(ListChanged), limit=1)
        self._notifying: SubscriberTask | None = None

    def start(self) -> None:
        self.requests.begin()
        self.change_notifier.start()
        self._notifying = SubscriberTask(self._changes, self._notify_soon)
        self.quarantine.begin(self._foundation.store)

    def show(self, offer: Offer) -> None:
        """Put an offer into the catalog, and notify clients."""
        self.catalog.put(offer)
        self.tokens.count(offer.server, offer.tools.values())
        if offer.instructions:
            self.tokens.counted([section(offer.server, offer.instructions)])
        self.changed(offer.server)

    def access_changed(self) -> None:
        """Drop all cached callers and plans, and notify clients of changed lists."""
        self._foundation.plan_generation.advance()
        self._authentication.authenticator.forget()
        self.changed()

    def changed(self, server: str = "") -> None:
        """Publish that lists may have changed: those with the tools of a server, or any."""
        self.bus.publish(ListChanged("catalog", self.bus.next(), now_us(), server, self.catalog.generation))

    async def _notify_soon(self, batch: Sequence[Delivery]) -> None:
        await asyncio.sleep(NOTIFY_DELAY_S)
        self._changes.take()
        await self.notify()

    async def notify(self) -> None:
        """Notify the clients whose lists changed."""
        await self.change_notifier.catalog_changed()
        self.requests.recheck()
        self.discovery_tools.contexts.recheck()

    async def stop(self) -> None:
        """Stop notifications, token counts and searches."""
        if self._notifying is not None:
            await self._notifying.close()
        await self.change_notifier.close()
        await self.lifecycle_notifier.close()
        await self.event_subscriptions.close()
        await self.tokens.close()
        await self.search.close()

    async def close(self) -> None:
        """End pending tool requests."""
        await self._request_tasks.close()

    def _offered(self, offer: Offer) -> None:
        self.show(self._approvals.permissions.filtered(offer))

    def _connected(self, server: str) -> bool:
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.state is ServerState.CONNECTED
