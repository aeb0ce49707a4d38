"""Adds the hub's `security` to lists of tools, for clients that agreed on MGP's security extension.

The hub passes on the server's declaration, but sets the risk, the required permissions and whether a person is asked
itself. Other clients get the servers' definitions unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.calls.gates.risk import RiskPolicy
from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.views import Catalog, View

MAX_CACHED: Final = 8
"""The number of cached lists. A list may have megabytes."""


class SecurityListing:
    """Adds `security` to each tool of a list."""

    def __init__(
        self,
        catalog: Catalog,
        plan_generation: PlanGeneration,
        risk: RiskPolicy,
        needs: Callable[[Tool], tuple[str, ...]],
    ) -> None:
        self._catalog = catalog
        self._plan_generation = plan_generation
        self._risk = risk
        self._needs = needs
        self._cache: dict[tuple[View, int], tuple[bytes, bytes]] = {}

    def __call__(self, view: View, listing: bytes) -> bytes:
        """Add the `security` of each tool to a list (MGP, Extended Tool Definition)."""
        known = self._cache.get((view, self._plan_generation.number))
        if known is not None and known[0] is listing:
            return known[1]
        tools = msgspec.json.decode(listing, type=list[dict[str, msgspec.Raw]])
        for fields in tools:
            tool = self._catalog.tool(view, msgspec.json.decode(fields["name"], type=str))
            if tool is not None:
                fields["security"] = msgspec.Raw(msgspec.json.encode(self._security(tool, fields.get("security"))))
        secured = msgspec.json.encode(tools)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[view, self._plan_generation.number] = (listing, secured)
        return secured

    def _security(self, tool: Tool, declared: msgspec.Raw | None) -> dict[str, object]:
        decoded = {} if declared is None else msgspec.json.decode(declared)
        needed = self._needs(tool)
        permissions = {"permissions_required": needed} if needed else {}
        fields = decoded if isinstance(decoded, dict) else {}
        judged = self._risk.judge(tool)
        if judged.rule or "confirmation_required" in fields:
            fields = {**fields, "confirmation_required": judged.asks}
        return {**fields, **permissions, "risk_level": judged.shown.word}
