"""Builds tool search: the search itself, the tools for it, and requests of agents for tools that they may not call."""

from __future__ import annotations

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.listings import ListingParts
from interlock.hub.foundation import Foundation
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.creations import ToolCreations
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.embeddings import EmbeddingCache
from interlock.hub.tool_search.learning import UsageLearning
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.hub.tool_search.requested_tools import RequestedTools
from interlock.hub.tool_search.requests import ToolRequests
from interlock.hub.tool_search.search import ToolSearch
from interlock.hub.tool_search.tool_summaries import ToolSummaries
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.security import Trust


class ToolSearchParts:
    """Everything that finds tools for a caller."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        calls: CallParts,
        listings: ListingParts,
        registrations: Registrations,
    ) -> None:
        self._approvals = approvals
        self._upstreams = calls.upstreams
        catalog, tokens, tools = listings.catalog, listings.tokens, listings.listings
        risk_of = approvals.server_policies.risk_of
        self.search = self._search(foundation, listings)
        summaries = ToolSummaries(catalog, tokens, self.search.status, risk_of, approvals.permissions.needs)
        self.contexts = Contexts(tools)
        self._request_tasks = BackgroundTasks()
        self.requests = ToolRequests(
            approvals.inbox,
            authentication.access_methods,
            self._request_tasks,
            risk_of,
            foundation.log,
            ToolCreations(registrations, lambda: foundation.config, lambda: foundation.store),
            RequestedTools(tools, summaries, self.contexts, foundation.bus),
        )
        self.discovery_tools = DiscoveryTools(
            catalog, tools, self.search, tokens, summaries, self.requests, calls.pipeline, self.contexts
        )
        self.recorded_requests = RecordedRequests(authentication.rates, calls.recording)

    def _search(self, foundation: Foundation, listings: ListingParts) -> ToolSearch:
        meaning = EmbeddingCache(
            lambda: foundation.config.hub.embeddings,
            foundation.home,
            lambda: foundation.store,
            foundation.resolver,
            foundation.log,
        )
        return ToolSearch(
            listings.catalog,
            listings.tokens,
            meaning,
            self._connected,
            lambda: foundation.config.hub.timeouts.lock_s,
            self._approvals.server_policies.risk_of,
            self._trust_and_permissions,
            UsageLearning(lambda: foundation.store, foundation.log),
        )

    def recheck(self) -> None:
        """Look again at open requests and loaded tools: lists may have changed."""
        self.requests.recheck()
        self.contexts.recheck()

    async def close(self) -> None:
        """End pending tool requests."""
        await self._request_tasks.close()

    def _connected(self, server: str) -> bool:
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.state is ServerState.CONNECTED

    def _trust_and_permissions(self, server: str) -> tuple[Trust, tuple[str, ...]]:
        return self._approvals.server_policies.trust_of(server), self._approvals.permissions.declared(server)
