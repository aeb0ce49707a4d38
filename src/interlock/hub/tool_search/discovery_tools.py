"""The hub's own tools and methods: discover, request, session and evict (MGP, Dynamic Tool Discovery).

`call_tool` is not here: the hub turns it into a call of the inner tool before it judges and records the call.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

from interlock.discovery.budget import FittedList, SessionTools, fit
from interlock.discovery.errors import DiscoveryError
from interlock.hub.approvals.states import DecisionState
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.sessions.session import Session
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.creations import CreateToolParams
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.needs import Matches, Needs, ToolRequest
from interlock.hub.tool_search.requested_tools import LOADED_TOKENS, AwaitedTool, over_budget_entry
from interlock.hub.tool_search.requests import ToolRequests
from interlock.hub.tool_search.search import CONNECTED, KNOWN, ToolSearch, split_in_thread
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.tool_search.tool_summaries import ToolSummaries, ToolSummary, cost_of
from interlock.judge.names import exposed_name
from interlock.wire.errors import Fault

MAX_LEFT_OUT: Final = 5
"""How many tools that exceed the budget an answer names."""
FOUND_TOKENS: Final = 50
"""The tokens of a search result without its tools."""
UNAVAILABLE_TOKENS: Final = 120
"""Upper bound for the tokens about tools that exceed the budget."""
CALL_IT: Final = "call each with `call_tool` (name, arguments), or by its name where your list shows it"


class DiscoveryTools:
    """Finds and loads tools for callers."""

    def __init__(
        self,
        catalog: Catalog,
        listings: ToolListings,
        search: ToolSearch,
        tokens: TokenCounts,
        summarizer: ToolSummaries,
        requests: ToolRequests,
        pipeline: Pipeline,
        contexts: Contexts,
    ) -> None:
        self._catalog = catalog
        self._listings = listings
        self._visible = listings.visible
        self._search = search
        self._tokens = tokens
        self._summarizer = summarizer
        self._requests = requests
        self._pipeline = pipeline
        self.contexts = contexts
        self._needs = Needs(catalog, listings, search, self._callable)

    async def discover(
        self, caller: Caller, session: Session | None, params: dict[str, Any], *, explain: bool = False
    ) -> dict[str, object]:
        """`mgp/tools/discover`: the best tools for a query with their schemas, within the budget."""
        from interlock.discovery.queries import MAX_RESULTS, Filters

        began = time.perf_counter()
        limit = params.get("max_results", 5)
        # The caller may not be able to call some of the hits; the next best replace them.
        count = min(limit + EXTRA_HITS, MAX_RESULTS) if type(limit) is int and 1 <= limit <= MAX_RESULTS else limit
        try:
            filters = Filters.read(params.get("filter"))
            if filters.status not in (None, CONNECTED, KNOWN):
                raise DiscoveryError("status", f"status is {CONNECTED} or {KNOWN}")
            strategy = params.get("strategy", "hybrid")
            await self._visible.prepare_calls(caller.list_scope)
            seen = self._visible.callable(caller.list_scope)
            query = await split_in_thread(params.get("query", ""))
            found = await self._search.find(
                seen, query, strategy, count, filters, caller.principal_name, explain=explain
            )
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        hits = [(tool, hit.score) for hit in found.hits if (tool := self._callable(caller, hit.entry.identity))]
        scores = {self._visible.name(caller.list_scope, tool): score for tool, score in hits[:limit]}
        summaries, fitting = await self._fitted(caller, session, [tool for tool, _ in hits[:limit]])
        why = {hit.entry.identity: {"why": list(hit.why)} for hit in found.hits if explain}
        tools = {self._visible.name(caller.list_scope, tool): (tool.server, tool.name) for tool, _ in hits[:limit]}
        if not explain:
            self._search.learning.found(
                caller.principal_name, query.whole.terms, (tools[name] for name in fitting.kept)
            )
        result: dict[str, object] = {
            "tools": [
                {**summaries[name].entry, "relevance_score": scores[name], **why.get(tools[name], {})}
                for name in fitting.kept
            ],
            "total_available": found.total_available,
            "search_strategy": found.strategy,
            "query_time_ms": round((time.perf_counter() - began) * 1000, 2),
        }
        if fitting.left_out:
            result["left_out_for_budget"] = list(fitting.left_out)
        return result

    async def request(
        self, caller: Caller, session: Session | None, params: dict[str, Any], *, speaks_mgp: bool = False
    ) -> dict[str, object]:
        """`mgp/tools/request`: load tools for a missing capability, or request approval for them."""
        wanted = ToolRequest.read(params)
        if wanted.create is not None:
            return await self._create(caller, session, wanted, wanted.create, speaks_mgp)
        matches = await self._needs.best(caller, wanted)
        request_id = secrets.token_hex(8)
        pending = await self._ask_for(caller, session, wanted, request_id, matches, speaks_mgp)
        summaries = await self._summaries(caller, session, list(matches.found.values()))
        context = self.contexts.of(caller, session)
        named_pending = _named(pending, context.remaining - LOADED_TOKENS)
        spare = LOADED_TOKENS + sum(map(cost_of, named_pending))
        missing = _named(matches.missing, context.remaining - spare)
        spare += sum(map(cost_of, missing))
        costs = {name: self._listings.budget.cost(caller.list_scope, tool) for name, tool in matches.found.items()}
        unavailable_tokens = 0
        if spare + sum(costs.values()) + sum(each.tokens for each in summaries.values()) > context.remaining:
            unavailable_tokens = max(0, min(UNAVAILABLE_TOKENS, context.remaining - spare))
        answer = {name: each.tokens for name, each in summaries.items()}
        loaded = context.load(list(costs.items()), answer, spare + unavailable_tokens)
        missing += _named([over_budget_entry(name) for name in loaded.left_out], unavailable_tokens)
        status = "unavailable" if not loaded.kept else "partial" if missing else "fulfilled"
        result: dict[str, object] = {
            "status": "pending_approval" if pending else status,
            "tools_loaded": [summaries[name].entry for name in loaded.kept],
            "tools_unavailable": missing,
            "session_tools_count": len(context.pinned) + len(context.loaded),
            "context_tokens_added": loaded.tokens_added,
        }
        if pending:
            result |= {"request_id": request_id, "tools_pending": named_pending}
        elif status == "unavailable":
            result |= await self._creation(caller, request_id, context, spare)
        else:
            result["note"] = CALL_IT
        return result

    async def _creation(self, caller: Caller, request_id: str, context: SessionTools, spare: int) -> dict[str, object]:
        """How the agent may write the tool itself, as far as that fits; else why it may not."""
        creation, why_not = await self._requests.creations.offer(caller, request_id)
        if creation is None:
            return {"note": why_not}
        shown = creation if cost_of(creation) <= context.remaining - spare else {"how": creation["how"]}
        return {"status": "creating", "request_id": request_id, "creation": shown}

    async def _create(
        self, caller: Caller, session: Session | None, wanted: ToolRequest, create: CreateToolParams, speaks_mgp: bool
    ) -> dict[str, object]:
        """Register the tool that the agent wrote. The follow-up tells when it can be called."""
        why, trace = wanted.context or wanted.reason, wanted.task_trace_id
        made = await self._requests.creations.create(caller, create, why, trace or "")
        name = exposed_name(made.server, create.name)
        self._requests.wait(AwaitedTool(caller, session, create.request_id, trace, name, made.decision, speaks_mgp))
        context = self.contexts.of(caller, session)
        pending = {"tool": name, "decision": made.decision} if made.decision else {"tool": name}
        return {
            "status": "pending_approval" if made.decision else "creating",
            "tools_loaded": [],
            "tools_unavailable": [],
            "session_tools_count": len(context.pinned) + len(context.loaded),
            "context_tokens_added": 0,
            "request_id": create.request_id,
            "tools_pending": [pending],
        }

    def session(self, caller: Caller, session: Session | None) -> dict[str, object]:
        """`mgp/tools/session`: the tools in the context."""
        tools = self.contexts.of(caller, session)
        over_budget = self._listings.budget.pinned_over_budget(caller.list_scope)
        return {
            "pinned": list(tools.pinned),
            "cached": list(tools.cached),
            "total_tokens": self._listings.budget.listed_tokens(caller.list_scope, tools.total_tokens),
            "max_tokens": caller.list_scope.budget,
            **({"pinned_over_budget": list(over_budget)} if over_budget else {}),
        }

    def evict(self, caller: Caller, session: Session | None, params: dict[str, Any]) -> dict[str, object]:
        """`mgp/tools/session/evict`: remove loaded tools from the context."""
        names = params.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Fault("INVALID_PARAMS", "tools must be a list of names")
        try:
            freed = self.contexts.of(caller, session).evict(names)
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return {"evicted": list(dict.fromkeys(names)), "tokens_freed": freed}

    def forget(self, session: Session) -> None:
        """Drop the state of a closed session."""
        self.contexts.forget(session)
        self._requests.forget(session)

    async def _fitted(
        self, caller: Caller, session: Session | None, tools: list[Tool]
    ) -> tuple[dict[str, ToolSummary], FittedList]:
        """The summaries of tools, and which of them fit into the budget, best first."""
        summaries = await self._summaries(caller, session, tools)
        context = self.contexts.of(caller, session)
        costs = [(name, each.tokens) for name, each in summaries.items()]
        fitting = context.discover(costs, FOUND_TOKENS)
        if not fitting.left_out:
            return summaries, fitting
        remaining = max(0, context.remaining - FOUND_TOKENS)
        names_cost = sum(sorted(map(cost_of, summaries), reverse=True)[:MAX_LEFT_OUT])
        fitting = context.discover(costs, FOUND_TOKENS + names_cost)
        named = fit(
            [(name, cost_of(name)) for name in fitting.left_out[:MAX_LEFT_OUT]], remaining - fitting.tokens
        ).kept
        return summaries, FittedList(fitting.kept, named or fitting.left_out[:1], fitting.tokens)

    async def _summaries(self, caller: Caller, session: Session | None, tools: list[Tool]) -> dict[str, ToolSummary]:
        """The summaries of tools. Waits for exact token counts if they decide whether the tools fit."""
        summaries = {
            self._visible.name(caller.list_scope, tool): self._summarizer.of(caller.view, tool) for tool in tools
        }
        remaining = self.contexts.of(caller, session).remaining
        tight = 2 * sum(each.tokens for each in summaries.values()) + LOADED_TOKENS > remaining
        if not tight or all(each.counted for each in summaries.values()):
            return summaries
        await self._tokens.settled()
        return {self._visible.name(caller.list_scope, tool): self._summarizer.of(caller.view, tool) for tool in tools}

    async def _ask_for(
        self,
        caller: Caller,
        session: Session | None,
        wanted: ToolRequest,
        request_id: str,
        matches: Matches,
        speaks_mgp: bool,
    ) -> list[dict[str, object]]:
        """Open approval requests for tools. Returns the waiting tools by name only."""
        pending: list[dict[str, object]] = []
        for name, (tool, decision) in matches.need_approval.items():
            id_ = decision
            if not id_:
                opened = await self._requests.ask(caller, tool, {"reason": wanted.reason, "context": wanted.context})
                if opened.state is DecisionState.DENIED:
                    matches.missing.append({"tool": name, "reason": f"denied by {opened.answered_by}"})
                    continue
                id_ = opened.id
            self._requests.wait(AwaitedTool(caller, session, request_id, wanted.task_trace_id, name, id_, speaks_mgp))
            pending.append({"tool": name, "decision": id_})
        return pending

    def _callable(self, caller: Caller, identity: tuple[str, str]) -> Tool | None:
        """The tool of an identity, if the caller may call it now."""
        offer = self._catalog.offer(identity[0])
        tool = None if offer is None else offer.named(identity[1])
        if tool is None or identity not in self._visible.callable(caller.list_scope):
            return None
        return tool if self._pipeline.may_call(caller, self._visible.name(caller.list_scope, tool)) else None


def _named(entries: list[dict[str, object]], tokens: int) -> list[dict[str, object]]:
    """The entries that fit into the tokens, and the number of the others."""
    if sum(map(cost_of, entries)) <= tokens:
        return list(entries)
    named: list[dict[str, object]] = []
    tokens -= cost_of(_more(len(entries)))
    for entry in entries:
        tokens -= cost_of(entry)
        if tokens < 0:
            break
        named.append(entry)
    return [*named, _more(len(entries) - len(named))]


def _more(count: int) -> dict[str, object]:
    return {"reason": f"{count} more exceed the context budget"}


EXTRA_HITS: Final = 10
"""How many hits the search returns beyond the requested number, to replace tools that cannot be called."""
