"""What clients are shown: the lists, the way to find tools, and who hears that they changed."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.hub.approvals.remembered_tools import remembered
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.recording import Recording
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.quarantine import Quarantine
from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.foundation import Foundation
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.embeddings import EmbeddingCache
from interlock.hub.tool_search.instructions import section
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.hub.tool_search.requests import Requests
from interlock.hub.tool_search.search import ToolSearch
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.tool_search.tool_summaries import ToolSummaries
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstreams import Upstreams

NOTICE_EVERY_S: Final = 0.05
"""Changes of the catalog within this time are told as one."""


class ListingParts:
    """Everything that goes by the catalog."""

    def __init__(
        self,
        foundation: Foundation,
        admitting: AuthenticationParts,
        deciding: ApprovalParts,
        catalog: Catalog,
        upstreams: Upstreams,
    ) -> None:
        self._foundation = foundation
        self._admitting = admitting
        self._deciding = deciding
        self._upstreams = upstreams
        self.catalog = catalog
        self.tokens = TokenCounts(self.changed)
        self.listings = ToolListings(catalog, self.tokens, admitting.access, deciding.deferred)
        self.secured = SecurityListing(catalog, foundation.policy_version, deciding.risk_of, deciding.needs)
        self.change_notifier = ChangeNotifier(catalog, self.listings)
        self.quarantine = Quarantine(foundation.config, self._offered, foundation.note)
        self.meaning = EmbeddingCache(
            lambda: foundation.config.hub.embeddings, lambda: foundation.store, foundation.resolver, foundation.note
        )
        self.search = ToolSearch(
            catalog,
            self.tokens,
            self.meaning,
            self._connected,
            lambda: foundation.config.hub.timeouts.lock_s,
            deciding.risk_of,
            lambda server: (deciding.server_policies.trust_of(server), deciding.permissions.declared(server)),
        )
        self._requested = BackgroundTasks()
        self.requests = Requests(
            deciding.inbox, admitting.access_methods, self._requested.begin, deciding.risk_of, foundation.note
        )
        telling = ToolSummaries(catalog, self.tokens, self.search.status, deciding.risk_of, deciding.needs)
        self.discovery_tools = DiscoveryTools(
            catalog,
            self.listings,
            self.search,
            self.tokens,
            telling,
            self.requests,
            self.change_notifier.on_tool_request,
        )
        self._telling: asyncio.TimerHandle | None = None

    def govern(self, recording: Recording) -> None:
        """Count and record what is asked of the kernel itself, too."""
        clock = asyncio.get_running_loop().time
        self.discovery_tools.governed = RecordedRequests(self._admitting.rates, recording, clock)

    def begin(self) -> None:
        """Take over what the store holds."""
        self.requests.begin()
        self.quarantine.begin(self._foundation.store)

    async def remember(self, servers: list[str]) -> None:
        """Servers that start on demand are known by their tools of earlier, until they run. One that was never seen is
        started once: nobody could ask for what nobody knows."""
        for server in servers:
            settings = self._foundation.config.servers.get(server)
            offer = self.catalog.offer(server)
            if settings is None or settings.start != "on-demand" or offer is None or offer.tools:
                continue
            known = await remembered(self._foundation.store, server, settings)
            if known is None:
                self._upstreams[server].want()
            else:
                await self._deciding.permissions.take(known)
                await self.quarantine.take(known)

    def show(self, offer: Offer) -> None:
        """Put an offer into the catalog, and tell who sees another list for it."""
        self.catalog.put(offer)
        self.tokens.count(offer.tools.values())
        if offer.instructions:
            self.tokens.counted([section(offer.server, offer.instructions)])
        self.changed()

    def access_changed(self) -> None:
        """Every caller and plan is old now, and lists may be: each is looked at when it is next asked for."""
        self._foundation.policy_version.advance()
        self._admitting.authenticator.forget()
        self.changed()

    def changed(self) -> None:
        """Lists may be different: whoever sees them is told in a moment."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTICE_EVERY_S, self.tell)

    def tell(self) -> None:
        """Tell whose lists changed."""
        self._telling = None
        self.change_notifier.catalog_changed()
        self.requests.recheck()
        self.discovery_tools.contexts.recheck()

    async def rest(self) -> None:
        """Nobody is told of changes any more, and nothing is counted or searched for."""
        if self._telling is not None:
            self._telling.cancel()
        await self.tokens.close()
        await self.search.close()

    async def close(self) -> None:
        """What was asked for on somebody's behalf ends."""
        await self._requested.close()

    def _offered(self, offer: Offer) -> None:
        self.show(self._deciding.permissions.sifted(offer))

    def _connected(self, server: str) -> bool:
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.state is ServerState.CONNECTED
