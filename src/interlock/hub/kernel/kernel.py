"""The kernel's tools and methods: discover, request, session and evict (MGP, Dynamic Tool Discovery).

`call_tool` is not here: the hub calls the inner tool in its place, and judges, records and shows it as that tool.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final

import msgspec

from interlock.discovery.budget import Budget, SessionTools
from interlock.discovery.errors import DiscoveryError
from interlock.hub.call import Caller
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.kernel.definitions import SCHEMAS
from interlock.hub.kernel.search import ToolSearch
from interlock.hub.kernel.shelves import Shelves
from interlock.hub.kernel.tokens import TokenCounts
from interlock.signatures.validate import Validator
from interlock.transports.exchange import Session
from interlock.wire.errors import Fault

UNBOUNDED: Final = Budget(100_000_000, 0, 0, 100_000_000)
"""For callers without a budget: everything fits."""
MOST_CALLERS: Final = 10_000


class Kernel:
    """Finds and loads tools for callers."""

    def __init__(self, catalog: Catalog, shelves: Shelves, search: ToolSearch, tokens: TokenCounts) -> None:
        self._catalog = catalog
        self._shelves = shelves
        self._search = search
        self._tokens = tokens
        self._loaded: OrderedDict[tuple[str, str], SessionTools] = OrderedDict()
        self._validators: dict[str, Validator] = {}

    def check(self, name: str, arguments: object) -> None:
        """Refuse arguments that do not fit a kernel tool."""
        validator = self._validators.get(name)
        if validator is None:
            validator = self._validators[name] = Validator(SCHEMAS[name])
        problems = validator.check(arguments)
        if problems:
            told = "; ".join(f"{problem.field or 'arguments'}: {problem.reason}" for problem in problems[:5])
            raise Fault("INVALID_TOOL_ARGS", f"Invalid arguments: {told}")

    async def discover(self, caller: Caller, session: Session | None, params: dict[str, Any]) -> dict[str, object]:
        """`mgp/tools/discover`: the best tools for a query, with their schemas, as many as the budget holds."""
        from interlock.discovery.index import Filters

        began = time.perf_counter()
        try:
            filters = Filters.read(params.get("filter"))
            limit = params.get("max_results", 5)
            found = await self._search.find(
                self._shelves.seen(caller.shelf),
                params.get("query", ""),
                params.get("strategy", "hybrid"),
                limit,
                filters,
            )
            tools = [tool for hit in found.hits if (tool := self._tool(hit.entry.identity)) is not None]
            fitting = self._session_tools(caller, session).discover([(t.exposed, self._tokens.of(t)) for t in tools])
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        kept = set(fitting.kept)
        scores = {hit.entry.identity: hit.score for hit in found.hits}
        result: dict[str, object] = {
            "tools": [
                {**self._described(caller, tool), "relevance_score": scores[tool.server, tool.name]}
                for tool in tools
                if tool.exposed in kept
            ],
            "total_available": found.total_available,
            "search_strategy": found.strategy,
            "query_time_ms": round((time.perf_counter() - began) * 1000, 2),
        }
        if fitting.left_out:
            result["left_out_for_budget"] = list(fitting.left_out)
        return result

    async def request(self, caller: Caller, session: Session | None, params: dict[str, Any]) -> dict[str, object]:
        """`mgp/tools/request`: tools for a capability that is missing, loaded into the session."""
        wanted = msgspec.convert(params, _Request)
        needs = wanted.requirements
        asked = needs.capabilities or (wanted.context,)
        risk = {"risk_level_max": needs.preferred_risk_level} if needs.preferred_risk_level else None
        types = " ".join((*needs.input_types, *needs.output_types))
        found: dict[str, Tool] = {}
        missing: list[dict[str, object]] = []
        for capability in asked:
            best = await self._best(caller, f"{capability.replace('_', ' ')} {types}".strip(), risk)
            found |= {tool.exposed: tool for tool in best}
            if not best:
                missing.append({"capability": capability, "reason": "no tool that may be called here fits"})
        loaded = self._session_tools(caller, session).load([(n, self._tokens.of(t)) for n, t in found.items()])
        missing += [{"tool": name, "reason": "the context budget has no room for it"} for name in loaded.left_out]
        status = "unavailable" if not loaded.kept else "partial" if missing else "fulfilled"
        result: dict[str, object] = {
            "status": status,
            "tools_loaded": [self._described(caller, found[name]) for name in loaded.kept],
            "tools_unavailable": missing,
            "session_tools_count": len(self.loaded(caller, session)),
            "context_tokens_added": loaded.tokens_added,
        }
        if status == "unavailable":
            result["note"] = "tools are not made on request: this hub has no isolation for code that an agent wrote"
        return result

    def session(self, caller: Caller, session: Session | None) -> dict[str, object]:
        """`mgp/tools/session`: what stands in the context."""
        tools = self._session_tools(caller, session)
        return {
            "pinned": list(tools.pinned),
            "cached": list(tools.cached),
            "total_tokens": tools.total_tokens,
            "max_tokens": None if tools.budget is UNBOUNDED else tools.budget.max_tokens,
        }

    def evict(self, caller: Caller, session: Session | None, params: dict[str, Any]) -> dict[str, object]:
        """`mgp/tools/session/evict`: make room."""
        names = params.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Fault("INVALID_PARAMS", "tools must be a list of names")
        try:
            freed = self._session_tools(caller, session).evict(names)
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return {"evicted": names, "tokens_freed": freed}

    def loaded(self, caller: Caller, session: Session | None) -> tuple[str, ...]:
        """Tools that this session asked for, beside the pinned ones."""
        tools = self._loaded.get(_whose(caller, session))
        return () if tools is None else tools.cached

    def forget(self, session: Session, caller: Caller) -> None:
        """A session is over."""
        self._loaded.pop(_whose(caller, session), None)

    async def _best(self, caller: Caller, query: str, risk: dict[str, str] | None) -> list[Tool]:
        from interlock.discovery.index import Filters

        try:
            found = await self._search.find(self._shelves.seen(caller.shelf), query, "hybrid", 2, Filters.read(risk))
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return [tool for hit in found.hits if hit.score > 0 and (tool := self._tool(hit.entry.identity)) is not None]

    def _session_tools(self, caller: Caller, session: Session | None) -> SessionTools:
        whose = _whose(caller, session)
        tools = self._loaded.get(whose)
        budget = self._shelves.budget(caller.shelf) or UNBOUNDED
        if tools is None or tools.budget != budget:
            tools = SessionTools(budget, self._shelves.pinned(caller.shelf))
            self._loaded[whose] = tools
            if len(self._loaded) > MOST_CALLERS:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(whose)
        return tools

    def _tool(self, identity: tuple[str, str]) -> Tool | None:
        offer = self._catalog.offer(identity[0])
        if offer is None:
            return None
        return next((tool for tool in offer.tools.values() if tool.name == identity[1]), None)

    def _described(self, caller: Caller, tool: Tool) -> dict[str, object]:
        shown = msgspec.json.decode(self._catalog.render(caller.shelf.view, tool), type=dict[str, object])
        return {**{key: value for key, value in shown.items() if key in _TOLD}, "server_id": tool.server}


def _whose(caller: Caller, session: Session | None) -> tuple[str, str]:
    """In the handshake era a session has its own; in the stateless one a principal does."""
    return (caller.owner, session.id if session is not None else "")


_TOLD: Final = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "security"})


class _Requirements(msgspec.Struct, frozen=True):
    capabilities: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    preferred_risk_level: str | None = None


class _Request(msgspec.Struct):
    context: str = ""
    reason: str = ""
    requirements: _Requirements = _Requirements()
    task_trace_id: str | None = None
