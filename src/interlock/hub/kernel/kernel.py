"""The kernel's tools and methods: discover, request, session and evict (MGP, Dynamic Tool Discovery).

`call_tool` is not here: the hub calls the inner tool in its place, and judges, records and shows it as that tool.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.discovery.budget import Budget, SessionTools
from interlock.discovery.errors import DiscoveryError
from interlock.hub.call import Caller
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.decisions.table import State
from interlock.hub.kernel.definitions import SCHEMAS
from interlock.hub.kernel.requests import EVENT, Requests, Waiting, event
from interlock.hub.kernel.search import ToolSearch
from interlock.hub.kernel.shelves import Shelves
from interlock.hub.kernel.tokens import TokenCounts
from interlock.hub.principals import Principal
from interlock.transports.exchange import Session
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator

UNBOUNDED: Final = Budget(100_000_000, 0, 0, 100_000_000)
"""For callers without a budget: everything fits."""
MOST_CALLERS: Final = 10_000
MOST_LEFT_OUT: Final = 5
"""Names that an answer gives of what it had no room for."""
BESIDE_TOKENS: Final = 24
"""What an answer says of each tool beside its definition."""
SPARE_TOKENS: Final = 60 + 20 * MOST_LEFT_OUT
"""What an answer says beside its tools."""


class Kernel:
    """Finds and loads tools for callers."""

    def __init__(
        self,
        catalog: Catalog,
        shelves: Shelves,
        search: ToolSearch,
        tokens: TokenCounts,
        requests: Requests,
        tell: Callable[[Principal, bytes], None],
    ) -> None:
        self._catalog = catalog
        self._shelves = shelves
        self._search = search
        self._tokens = tokens
        self._requests = requests
        self._tell = tell
        requests.settled = self._settled
        self._loaded: OrderedDict[tuple[str, str], SessionTools] = OrderedDict()
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
            costs = [(tool.exposed, self._in_result(caller, tool)) for tool in tools]
            fitting = self._session_tools(caller, session).discover(costs, SPARE_TOKENS)
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
            result["left_out_for_budget"] = list(fitting.left_out[:MOST_LEFT_OUT])
        return result

    async def request(
        self, caller: Caller, session: Session | None, params: dict[str, Any], *, speaks_mgp: bool = False
    ) -> dict[str, object]:
        """`mgp/tools/request`: tools for a capability that is missing, loaded into the session or asked for."""
        wanted = msgspec.convert(params, _Request)
        needs = wanted.requirements
        asked = needs.capabilities or (wanted.context,)
        risk = {"risk_level_max": needs.preferred_risk_level} if needs.preferred_risk_level else None
        types = " ".join((*needs.input_types, *needs.output_types))
        found: dict[str, Tool] = {}
        closed: dict[str, tuple[Tool, str]] = {}
        missing: list[dict[str, object]] = []
        for capability in asked:
            best = await self._best(caller, f"{capability.replace('_', ' ')} {types}".strip(), risk)
            found |= {tool.exposed: tool for tool, decision in best if decision is None}
            closed |= {tool.exposed: (tool, decision) for tool, decision in best if decision is not None}
            if not best:
                missing.append({"capability": capability[:60], "reason": "no tool that may be called here fits"})
        request_id = secrets.token_hex(8)
        pending = await self._ask_for(caller, session, wanted, request_id, closed, missing, speaks_mgp)
        costs = [(name, self._in_result(caller, tool)) for name, tool in found.items()]
        loaded = self._session_tools(caller, session).load(costs)
        missing += [{"tool": name, "reason": "the context budget has no room for it"} for name in loaded.left_out]
        status = "unavailable" if not loaded.kept else "partial" if missing else "fulfilled"
        result: dict[str, object] = {
            "status": "pending_approval" if pending else status,
            "tools_loaded": [self._described(caller, found[name]) for name in loaded.kept],
            "tools_unavailable": missing,
            "session_tools_count": len(self.loaded(caller, session)),
            "context_tokens_added": loaded.tokens_added,
        }
        if pending:
            result |= {"request_id": request_id, "tools_pending": pending}
        elif status == "unavailable":
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
        self._requests.forget(session)

    async def _best(self, caller: Caller, query: str, risk: dict[str, str] | None) -> list[tuple[Tool, str | None]]:
        """The best tools for a need, each with None, or with the decision (maybe still to be opened: "") it needs."""
        from interlock.discovery.index import Filters

        shelf = caller.shelf
        askable, withheld = self._shelves.askable(shelf), self._shelves.withheld(shelf)
        seen = self._shelves.seen(shelf)
        allowed = seen | askable | frozenset(withheld) if askable or withheld else seen
        try:
            found = await self._search.find(allowed, query, "hybrid", 2, Filters.read(risk))
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        best: list[tuple[Tool, str | None]] = []
        for identity in (hit.entry.identity for hit in found.hits if hit.score > 0):
            if identity in withheld:
                best.append(withheld[identity])
            elif (tool := self._tool(identity)) is not None:
                best.append((tool, "" if identity in askable else None))
        return best

    async def _ask_for(
        self,
        caller: Caller,
        session: Session | None,
        wanted: _Request,
        request_id: str,
        closed: dict[str, tuple[Tool, str]],
        missing: list[dict[str, object]],
        speaks_mgp: bool,
    ) -> list[dict[str, object]]:
        """Open the decisions that tools need, and give the tools that now wait. Nothing but their names is told."""
        pending: list[dict[str, object]] = []
        for name, (tool, decision) in closed.items():
            id_ = decision
            if not id_:
                opened = await self._requests.ask(caller, tool, {"reason": wanted.reason, "context": wanted.context})
                if opened.state is State.DENIED:
                    missing.append({"tool": name, "reason": f"denied by {opened.answered_by}"})
                    continue
                id_ = opened.id
            self._requests.wait(Waiting(caller, session, request_id, wanted.task_trace_id, name, id_, speaks_mgp))
            pending.append({"tool": name, "decision": id_})
        return pending

    def _settled(self, waiting: Waiting, why_not: str | None) -> bool:
        """What became of a tool that was asked for: load it and say so, or say why not."""
        caller, session = waiting.caller, waiting.session
        data: dict[str, object] = {"request_id": waiting.request_id, "task_trace_id": waiting.trace}
        tool = None if why_not is not None else self._shelves.tool(caller.shelf, waiting.name)
        if tool is None and why_not is None:
            return False
        if tool is None:
            unavailable = [{"tool": waiting.name, "reason": why_not}]
            data |= {"status": "unavailable", "tools_loaded": [], "tools_unavailable": unavailable}
        else:
            loaded = self._session_tools(caller, session).load([(tool.exposed, self._in_result(caller, tool))])
            no_room = [{"tool": name, "reason": "the context budget has no room for it"} for name in loaded.left_out]
            data |= {
                "status": "fulfilled" if loaded.kept else "partial",
                "tools_loaded": [self._described(caller, tool)] if loaded.kept else [],
                "tools_unavailable": no_room,
                "session_tools_count": len(self.loaded(caller, session)),
                "context_tokens_added": loaded.tokens_added,
            }
        told = event(waiting.request_id, data)
        if session is None:
            self._tell(caller.principal, told)
            return True
        if tool is not None:
            session.notify("notifications/tools/list_changed", b"{}")
        if waiting.speaks_mgp:
            session.notify(EVENT, told)
        return True

    def _in_result(self, caller: Caller, tool: Tool) -> int:
        """What a tool costs in an answer: its definition, and what is told beside it."""
        return self._shelves.cost(caller.shelf, tool) + BESIDE_TOKENS + len(tool.server) // 2

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
        told = {key: value for key, value in shown.items() if key in _TOLD}
        return {**told, "server_id": tool.server, "status": self._search.status(tool.server)}


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
