"""A list of tools with the `security` that the hub reckons with, for clients that agreed on MGP's security extension.

What a server declares goes out whole; its risk is the hub's own, and so are the permissions that it asks for. Anybody
else gets definitions as their servers gave them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.calls.plan import PolicyVersion
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.views import Catalog, View
from interlock.protocols.mgp.permissions import Risk

MOST_KEPT: Final = 8
"""Lists that are kept: one is asked for often, and may be megabytes."""


class SecurityListing:
    """Puts it into lists."""

    def __init__(
        self,
        catalog: Catalog,
        policy_version: PolicyVersion,
        risk_of: Callable[[Tool], Risk],
        needs: Callable[[Tool], tuple[str, ...]],
    ) -> None:
        self._catalog = catalog
        self._policy_version = policy_version
        self._risk_of = risk_of
        self._needs = needs
        self._kept: dict[tuple[View, int], tuple[bytes, bytes]] = {}

    def __call__(self, view: View, listing: bytes) -> bytes:
        """The same list, with each tool's `security` (MGP, Extended Tool Definition)."""
        known = self._kept.get((view, self._policy_version.number))
        if known is not None and known[0] is listing:
            return known[1]
        tools = msgspec.json.decode(listing, type=list[dict[str, msgspec.Raw]])
        for fields in tools:
            tool = self._catalog.tool(view, msgspec.json.decode(fields["name"], type=str))
            if tool is not None:
                fields["security"] = msgspec.Raw(msgspec.json.encode(self._told(tool, fields.get("security"))))
        secured = msgspec.json.encode(tools)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[view, self._policy_version.number] = (listing, secured)
        return secured

    def _told(self, tool: Tool, declared: msgspec.Raw | None) -> dict[str, object]:
        said = {} if declared is None else msgspec.json.decode(declared)
        needed = self._needs(tool)
        permissions = {"permissions_required": needed} if needed else {}
        whole = said if isinstance(said, dict) else {}
        return {**whole, **permissions, "risk_level": self._risk_of(tool).word}
