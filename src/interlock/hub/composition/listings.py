"""Builds the lists for clients: the catalog, what judges offers before they are shown, and notifiers of changes."""

from __future__ import annotations

from interlock.events.types import ListChanged, now_us
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
from interlock.hub.tool_search.instructions import section
from interlock.hub.tool_search.list_forms import ListForms
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.hub.tool_search.starting_servers import StartingServers
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.upstreams.server_event_subscriptions import ServerEventSubscriptions


class ListingParts:
    """Everything that depends on the catalog."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        calls: CallParts,
        catalog: Catalog,
        live: LiveParts,
    ) -> None:
        self._foundation = foundation
        self._authentication = authentication
        self._approvals = approvals
        self.catalog = catalog
        access, bus = authentication.access, foundation.bus
        self.tokens = TokenCounts(self.changed)
        self.listings = ToolListings(catalog, self.tokens, access, approvals.deferred, live.offers)
        secured = SecurityListing(catalog, approvals.server_policies.risk, approvals.permissions.needs)
        self.forms = ListForms(secured, foundation.plan_generation)
        self.quarantine = Quarantine(foundation.config, self._offered, foundation.log)
        self.starting_servers = StartingServers(
            calls.upstreams,
            catalog,
            access,
            approvals.permissions,
            self.quarantine,
            lambda: foundation.config,
            lambda: foundation.store,
        )
        self.change_notifier = ChangeNotifier(catalog, self.listings, bus)
        self.lifecycle_notifier = LifecycleNotifier(catalog, access, bus)
        self.server_event_subscriptions = ServerEventSubscriptions(calls.upstreams, bus, foundation.log)
        self.event_subscriptions = EventSubscriptions(
            access, self.lifecycle_notifier, self.server_event_subscriptions, bus, calls.gate_chain
        )

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
        bus = self._foundation.bus
        bus.publish(ListChanged("catalog", bus.next(), now_us(), server, self.catalog.generation))

    async def close(self) -> None:
        """Stop the notifiers of events and the counting of tokens."""
        await self.lifecycle_notifier.close()
        await self.event_subscriptions.close()
        await self.tokens.close()

    def _offered(self, offer: Offer) -> None:
        self.show(self._approvals.permissions.filtered(offer))
