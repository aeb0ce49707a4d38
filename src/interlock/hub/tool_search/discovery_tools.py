"""The kernel's tools and methods: discover, request, session and evict (MGP, Dynamic Tool Discovery).

`call_tool` is not here: the hub calls the inner tool in its place, and judges, records and shows it as that tool.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from interlock.discovery.budget import Fit, SessionTools, fit
from interlock.discovery.errors import DiscoveryError
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.definitions import SCHEMAS
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.needs import Best, Needs, Wanted
from interlock.hub.tool_search.requests import EVENT, Requests, Waiting, event
from interlock.hub.tool_search.search import CONNECTED, KNOWN, ToolSearch
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.tool_search.tool_summaries import ToolSummaries, ToolSummary, cost_of
from interlock.transports.exchange import Session
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.hub.tool_search.recorded_requests import RecordedRequests
    from interlock.signatures.validate import Validator

MOST_LEFT_OUT: Final = 5
"""Names that an answer gives of what it had no room for."""
FOUND_TOKENS: Final = 50
"""What the answer to a search says beside its tools."""
LOADED_TOKENS: Final = 90
"""What the answer to a request says beside its tools."""
ROOM_TOKENS: Final = 120
"""What it says at most of tools that it had no room for."""
OVER_BUDGET: Final = "the context budget has no room for it"
NOT_MADE: Final = "tools are not made on request: this hub has no isolation for code that an agent wrote"


class DiscoveryTools:
    """Finds and loads tools for callers."""

    def __init__(
        self,
        catalog: Catalog,
        listings: ToolListings,
        search: ToolSearch,
        tokens: TokenCounts,
        telling: ToolSummaries,
        requests: Requests,
        tell: Callable[[Principal, bytes], None],
    ) -> None:
        self._catalog = catalog
        self._listings = listings
        self._search = search
        self._tokens = tokens
        self._telling = telling
        self._requests = requests
        self._tell = tell
        self.contexts = Contexts(listings)
        self._needs = Needs(catalog, listings, search, self._callable)
        self.may_call: Callable[[Caller, str], bool] = lambda caller, name: True
        """Set by the hub: whether no gate refuses a tool whatever its arguments are."""
        self.governed: RecordedRequests
        """Counts and records what is asked of the kernel. Set when the hub is put together."""
        requests.settled = self._settled
        self._validators: dict[str, Validator] = {}

    def check(self, name: str, arguments: object) -> None:
        """Refuse arguments that do not fit a kernel tool."""
        validator = self._validators.get(name)
        if validator is None:
            from interlock.signatures.validate import Validator

            validator = self._validators[name] = Validator(SCHEMAS[name])
        problems = validator.check(arguments)
        if problems:
            told = "; ".join(f"{problem.field or 'arguments'}: {problem.reason}" for problem in problems[:5])
            raise Fault("INVALID_TOOL_ARGS", f"Invalid arguments: {told[:LONGEST_PROBLEM]}")

    async def discover(
        self, caller: Caller, session: Session | None, params: dict[str, Any], *, explain: bool = False
    ) -> dict[str, object]:
        """`mgp/tools/discover`: the best tools for a query, with their schemas, as many as the budget holds."""
        from interlock.discovery.index import MAX_RESULTS, Filters

        began = time.perf_counter()
        limit = params.get("max_results", 5)
        # Some that are found may turn out not to be callable, and the next best take their place.
        asked = min(limit + MOST_REFUSED, MAX_RESULTS) if type(limit) is int and 1 <= limit <= MAX_RESULTS else limit
        try:
            filters = Filters.read(params.get("filter"))
            if filters.status not in (None, CONNECTED, KNOWN):
                raise DiscoveryError("status", f"status is {CONNECTED} or {KNOWN}")
            query, strategy = params.get("query", ""), params.get("strategy", "hybrid")
            seen = self._listings.callable(caller.list_scope)
            found = await self._search.find(seen, query, strategy, asked, filters, explain=explain)
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        hits = [(tool, hit.score) for hit in found.hits if (tool := self._callable(caller, hit.entry.identity))]
        scores = {self._listings.name(caller.list_scope, tool): score for tool, score in hits[:limit]}
        told, fitting = await self._fitted(caller, session, [tool for tool, _ in hits[:limit]])
        why = {hit.entry.identity: {"why": list(hit.why)} for hit in found.hits if explain}
        tools = {self._listings.name(caller.list_scope, tool): (tool.server, tool.name) for tool, _ in hits[:limit]}
        if not explain:
            self._search.learning.found(caller.principal.id, query, (tools[name] for name in fitting.kept))
        result: dict[str, object] = {
            "tools": [
                {**told[name].entry, "relevance_score": scores[name], **why.get(tools[name], {})}
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
        """`mgp/tools/request`: tools for a capability that is missing, loaded into the session or asked for."""
        wanted = Wanted.read(params)
        best = await self._needs.best(caller, wanted)
        request_id = secrets.token_hex(8)
        pending = await self._ask_for(caller, session, wanted, request_id, best, speaks_mgp)
        told = await self._told(caller, session, list(best.found.values()))
        context = self.contexts.of(caller, session)
        told_pending = _named(pending, context.remaining - LOADED_TOKENS)
        spare = LOADED_TOKENS + sum(map(cost_of, told_pending))
        missing = _named(best.missing, context.remaining - spare)
        spare += sum(map(cost_of, missing))
        costs = {name: self._listings.cost(caller.list_scope, tool) for name, tool in best.found.items()}
        room_to_say_so = 0
        if spare + sum(costs.values()) + sum(each.tokens for each in told.values()) > context.remaining:
            room_to_say_so = max(0, min(ROOM_TOKENS, context.remaining - spare))
        answer = {name: each.tokens for name, each in told.items()}
        loaded = context.load(list(costs.items()), answer, spare + room_to_say_so)
        missing += _named([_queue_full(name) for name in loaded.left_out], room_to_say_so)
        status = "unavailable" if not loaded.kept else "partial" if missing else "fulfilled"
        result: dict[str, object] = {
            "status": "pending_approval" if pending else status,
            "tools_loaded": [told[name].entry for name in loaded.kept],
            "tools_unavailable": missing,
            "session_tools_count": len(context.pinned) + len(context.loaded),
            "context_tokens_added": loaded.tokens_added,
        }
        if pending:
            result |= {"request_id": request_id, "tools_pending": told_pending}
        elif status == "unavailable":
            result["note"] = NOT_MADE
        return result

    def session(self, caller: Caller, session: Session | None) -> dict[str, object]:
        """`mgp/tools/session`: what stands in the context."""
        tools = self.contexts.of(caller, session)
        without_room = self._listings.pinned_over_budget(caller.list_scope)
        return {
            "pinned": list(tools.pinned),
            "cached": list(tools.cached),
            "total_tokens": self._listings.listed_tokens(caller.list_scope, tools.total_tokens),
            "max_tokens": caller.list_scope.budget,
            **({"pinned_over_budget": list(without_room)} if without_room else {}),
        }

    def evict(self, caller: Caller, session: Session | None, params: dict[str, Any]) -> dict[str, object]:
        """`mgp/tools/session/evict`: make room."""
        names = params.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Fault("INVALID_PARAMS", "tools must be a list of names")
        try:
            freed = self.contexts.of(caller, session).evict(names)
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return {"evicted": list(dict.fromkeys(names)), "tokens_freed": freed}

    def forget(self, session: Session, caller: Caller) -> None:
        """A session is over."""
        self.contexts.forget(caller, session)
        self._requests.forget(session)

    async def _fitted(
        self, caller: Caller, session: Session | None, tools: list[Tool]
    ) -> tuple[dict[str, ToolSummary], Fit]:
        """What an answer can tell of tools, best first: as many as there is room for, and the names of the others."""
        told = await self._told(caller, session, tools)
        context = self.contexts.of(caller, session)
        costs = [(name, each.tokens) for name, each in told.items()]
        fitting = context.discover(costs, FOUND_TOKENS)
        if not fitting.left_out:
            return told, fitting
        room = max(0, context.remaining - FOUND_TOKENS)
        to_name = sum(sorted(map(cost_of, told), reverse=True)[:MOST_LEFT_OUT])
        fitting = context.discover(costs, FOUND_TOKENS + to_name)
        named = fit([(name, cost_of(name)) for name in fitting.left_out[:MOST_LEFT_OUT]], room - fitting.tokens).kept
        return told, Fit(fitting.kept, named or fitting.left_out[:1], fitting.tokens)

    async def _told(self, caller: Caller, session: Session | None, tools: list[Tool]) -> dict[str, ToolSummary]:
        """What would be told of tools. Where they only may have room, it waits until they are counted."""
        told = {self._listings.name(caller.list_scope, tool): self._telling.of(caller.view, tool) for tool in tools}
        room = self.contexts.of(caller, session).remaining
        tight = 2 * sum(each.tokens for each in told.values()) + LOADED_TOKENS > room
        if not tight or all(each.counted for each in told.values()):
            return told
        await self._tokens.settled()
        return {self._listings.name(caller.list_scope, tool): self._telling.of(caller.view, tool) for tool in tools}

    async def _ask_for(
        self,
        caller: Caller,
        session: Session | None,
        wanted: Wanted,
        request_id: str,
        best: Best,
        speaks_mgp: bool,
    ) -> list[dict[str, object]]:
        """Open the decisions that tools need, and give the tools that now wait. Nothing but their names is told."""
        pending: list[dict[str, object]] = []
        for name, (tool, decision) in best.closed.items():
            id_ = decision
            if not id_:
                opened = await self._requests.ask(caller, tool, {"reason": wanted.reason, "context": wanted.context})
                if opened.state is DecisionState.DENIED:
                    best.missing.append({"tool": name, "reason": f"denied by {opened.answered_by}"})
                    continue
                id_ = opened.id
            self._requests.wait(Waiting(caller, session, request_id, wanted.task_trace_id, name, id_, speaks_mgp))
            pending.append({"tool": name, "decision": id_})
        return pending

    def _settled(self, waiting: Waiting, why_not: str | None) -> bool:
        """What became of a tool that was asked for: load it and say so, or say why not."""
        caller, session = waiting.caller, waiting.session
        data: dict[str, object] = {"request_id": waiting.request_id, "task_trace_id": waiting.trace}
        tool = None if why_not is not None else self._listings.tool(caller.list_scope, waiting.name)
        if tool is None and why_not is None:
            return False
        if tool is None:
            unavailable = [{"tool": waiting.name, "reason": why_not}]
            data |= {"status": "unavailable", "tools_loaded": [], "tools_unavailable": unavailable}
        else:
            data |= self._loaded(caller, self.contexts.of(caller, session), tool)
        told = event(waiting.request_id, data)
        if session is None:
            self._tell(caller.principal, told)
            return True
        self.contexts.changed(caller, session)
        if waiting.speaks_mgp:
            session.notify(EVENT, told)
        return True

    def _loaded(self, caller: Caller, context: SessionTools, tool: Tool) -> dict[str, object]:
        name, told = self._listings.name(caller.list_scope, tool), self._telling.of(caller.view, tool)
        loaded = context.load(
            [(name, self._listings.cost(caller.list_scope, tool))], {name: told.tokens}, LOADED_TOKENS
        )
        return {
            "status": "fulfilled" if loaded.kept else "partial",
            "tools_loaded": [told.entry] if loaded.kept else [],
            "tools_unavailable": [_queue_full(name) for name in loaded.left_out],
            "session_tools_count": len(context.pinned) + len(context.loaded),
            "context_tokens_added": loaded.tokens_added,
        }

    def _callable(self, caller: Caller, identity: tuple[str, str]) -> Tool | None:
        """The tool of an identity, if the caller may call it now."""
        offer = self._catalog.offer(identity[0])
        tool = None if offer is None else offer.named(identity[1])
        if tool is None or identity not in self._listings.callable(caller.list_scope):
            return None
        return tool if self.may_call(caller, self._listings.name(caller.list_scope, tool)) else None


def _queue_full(name: str) -> dict[str, object]:
    return {"tool": name, "reason": OVER_BUDGET}


def _named(entries: list[dict[str, object]], room: int) -> list[dict[str, object]]:
    """As many as there is room for, and how many more there are."""
    if sum(map(cost_of, entries)) <= room:
        return list(entries)
    named: list[dict[str, object]] = []
    room -= cost_of(_more(len(entries)))
    for entry in entries:
        room -= cost_of(entry)
        if room < 0:
            break
        named.append(entry)
    return [*named, _more(len(entries) - len(named))]


def _more(count: int) -> dict[str, object]:
    return {"reason": f"{count} more, for want of room"}


LONGEST_PROBLEM: Final = 400
MOST_REFUSED: Final = 10
"""Tools that are looked at beyond those that were asked for."""
