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
from interlock.hub.catalog.items import Tool, decode_fields
from interlock.hub.catalog.views import Catalog, View
from interlock.wire.large import Joined

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
        self._cache: dict[tuple[View, int], tuple[Joined, Joined]] = {}

    def __call__(self, view: View, listed: Joined) -> Joined:
        """Add the `security` of each tool to a list (MGP, Extended Tool Definition)."""
        known = self._cache.get((view, self._plan_generation.number))
        if known is not None and known[0] is listed:
            return known[1]
        secured = Joined.of([self._secured(view, definition) for definition in listed.items()])
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[view, self._plan_generation.number] = (listed, secured)
        return secured

    def _secured(self, view: View, definition: bytes) -> bytes:
        fields = decode_fields(definition)
        tool = self._catalog.tool(view, msgspec.json.decode(fields["name"], type=str))
        if tool is None:
            return definition
        fields["security"] = msgspec.Raw(msgspec.json.encode(self._security(tool, fields.get("security"))))
        return msgspec.json.encode(fields)

    def _security(self, tool: Tool, declared: msgspec.Raw | None) -> dict[str, object]:
        decoded = {} if declared is None else msgspec.json.decode(declared)
        needed = self._needs(tool)
        permissions = {"permissions_required": needed} if needed else {}
        fields = decoded if isinstance(decoded, dict) else {}
        judged = self._risk.judge(tool)
        if judged.rule or "confirmation_required" in fields:
            fields = {**fields, "confirmation_required": judged.asks}
        return {**fields, **permissions, "risk_level": judged.shown.word}
