"""Finds tools for the needs that an agent states (MGP, Active Tool Request).

A tool that only shares a word with a need does not meet it. The hub requests approval for a tool only if no callable
tool fits better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from interlock.discovery.entries import Identity
from interlock.discovery.errors import DiscoveryError
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.creations import CreateToolParams
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.search import ToolSearch, split_in_thread
from interlock.protocols.mgp.permissions import Risk
from interlock.wire.errors import Fault

RISK_LEVELS: Final = tuple(risk.word for risk in Risk)
MAX_CAPABILITIES: Final = 8
MAX_TYPES: Final = 8
MAX_TEXT_CHARS: Final = 8_000
MAX_NAMED_CHARS: Final = 60
"""An answer repeats this many characters of a need."""
PER_NEED: Final = 2
"""The hub loads this many tools for one need."""
FITS: Final = 0.12
"""A tool with at least this relevance meets a need."""
COVERS: Final = 0.85
"""A tool meets a need for certain if it meets so much of its words (`bench/needs.py`)."""
COVERS_SHORT: Final = 0.5
"""Below this, a tool does not meet a need of few words."""
FEW_TERMS: Final = 4
RANKED: Final = 10
"""The first tools for a need, whose coverage of the need is measured."""
NOTHING_FITS: Final = "no tool that you may call fits"
PERHAPS: Final = "the tools loaded for it may not fit: read them first"
Find = Callable[[Caller, Identity], Tool | None]


class Requirements(msgspec.Struct, frozen=True):
    """The required properties of the tools."""

    capabilities: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    preferred_risk_level: str | None = None


class ToolRequest(msgspec.Struct, frozen=True):
    """A request for tools."""

    context: str = ""
    reason: str = ""
    requirements: Requirements = Requirements()
    task_trace_id: str | None = None
    create: CreateToolParams | None = None
    """The tool that the agent wrote, after the answer `creating`."""

    @classmethod
    def read(cls, params: dict[str, Any]) -> ToolRequest:
        """Read a request. Raises INVALID_PARAMS with the problem."""
        try:
            request = msgspec.convert(params, cls)
        except msgspec.ValidationError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        needs = request.requirements
        lists = {"capabilities": (needs.capabilities, MAX_CAPABILITIES)}
        lists |= {"input_types": (needs.input_types, MAX_TYPES), "output_types": (needs.output_types, MAX_TYPES)}
        for name, (entries, limit) in lists.items():
            if len(entries) > limit:
                raise Fault("INVALID_PARAMS", f"requirements.{name} has {len(entries)} entries; the limit is {limit}")
        texts = (request.context, request.reason, request.task_trace_id or "", *needs.capabilities)
        if max(map(len, (*texts, *needs.input_types, *needs.output_types))) > MAX_TEXT_CHARS:
            raise Fault("INVALID_PARAMS", f"a text of the request has more than {MAX_TEXT_CHARS} characters")
        if needs.preferred_risk_level not in (None, *RISK_LEVELS):
            raise Fault("INVALID_PARAMS", f"requirements.preferred_risk_level is one of {', '.join(RISK_LEVELS)}")
        if not any(text.strip() for text in (request.context, *needs.capabilities)):
            raise Fault("INVALID_PARAMS", "context or requirements.capabilities must state what is missing")
        return request

    @property
    def needs(self) -> tuple[str, ...]:
        """Each need once. Without any named capability, the context is the need."""
        named = (capability for capability in self.requirements.capabilities if capability.strip())
        return tuple(dict.fromkeys(named)) or (self.context,)


class Matches(msgspec.Struct):
    """The best tools for the needs of a request, by their names for the caller."""

    found: dict[str, Tool] = {}
    need_approval: dict[str, tuple[Tool, str]] = {}
    """Tools that cannot be called yet, with the id of the open decision, or "" if none is open."""
    missing: list[dict[str, object]] = []


class Needs:
    """Finds tools that meet needs."""

    def __init__(self, catalog: Catalog, listings: ToolListings, search: ToolSearch, callable_: Find) -> None:
        self._catalog = catalog
        self._listings = listings
        self._search = search
        self._callable = callable_

    async def best(self, caller: Caller, request: ToolRequest) -> Matches:
        """Find the best tools for each need, and the reason for each unmet need."""
        matches = Matches()
        types = " ".join((*request.requirements.input_types, *request.requirements.output_types))
        level = request.requirements.preferred_risk_level
        for need in request.needs:
            query = need.replace("_", " ")
            found, certain = await self._find(caller, query, types, level)
            if found and not certain:
                matches.missing.append({"capability": need[:MAX_NAMED_CHARS], "reason": PERHAPS})
            if not found:
                reason = NOTHING_FITS
                if level is not None and any(
                    decision is None for _, decision in (await self._find(caller, query, types))[0]
                ):
                    reason = f"the fitting tools have a higher risk than {level}"
                matches.missing.append({"capability": need[:MAX_NAMED_CHARS], "reason": reason})
            for tool, decision in found:
                name = self._listings.visible.name(caller.list_scope, tool)
                if decision is None:
                    matches.found[name] = tool
                elif found[0][1] is not None:
                    matches.need_approval[name] = (tool, decision)
        return matches

    async def _find(
        self, caller: Caller, query: str, types: str, level: str | None = None
    ) -> tuple[list[tuple[Tool, str | None]], bool]:
        """The best tools for a need, each with None or the id of the decision that it needs ("" if none is open).

        The second value says whether one of them meets the need for certain.
        """
        from interlock.discovery.queries import Filters

        list_scope = caller.list_scope
        askable, withheld = self._listings.visible.askable(list_scope), self._listings.visible.withheld(list_scope)
        allowed = self._listings.visible.callable(list_scope)
        allowed = allowed | askable | frozenset(withheld) if askable or withheld else allowed
        try:
            filters = Filters.read({"risk_level_max": level})
            need = await split_in_thread(query)
            meets = await self._search.find(allowed, need, "hybrid", 100, filters, caller.principal_name, covers=RANKED)
            least = COVERS_SHORT if len(need.whole.terms) <= FEW_TERMS else 0.0
            # Only the first hits have a coverage. If they do not cover the need, later hits do not either.
            fits = {hit.entry.identity for hit in meets.hits if hit.score >= FITS and (hit.coverage or 0.0) >= least}
            sure = {hit.entry.identity for hit in meets.hits if (hit.coverage or 0) >= COVERS}
            found = meets
            if types:
                typed = await split_in_thread(f"{query} {types}")
                found = await self._search.find(allowed, typed, "hybrid", 100, filters, caller.principal_name)
        except DiscoveryError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        best: list[tuple[Tool, str | None]] = []
        certain = False
        for identity in (hit.entry.identity for hit in found.hits if hit.entry.identity in fits):
            if identity in withheld:
                best.append(withheld[identity])
            elif identity in askable:
                offer = self._catalog.offer(identity[0])
                tool = None if offer is None else offer.named(identity[1])
                best += [] if tool is None else [(tool, "")]
            elif (tool := self._callable(caller, identity)) is not None:
                best.append((tool, None))
            certain = certain or (identity in sure and bool(best) and best[-1][0].name == identity[1])
            if len(best) == PER_NEED:
                break
        return best, certain
