"""Adds the hub's `security` to lists of tools, for clients that agreed on MGP's security extension.

The hub passes on the server's declaration, but sets the risk, the required permissions and whether a person is asked
itself. Other clients get the servers' definitions unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.hub.calls.gates.risk import RiskPolicy
from interlock.hub.catalog.items import Tool, decode_fields
from interlock.hub.catalog.views import Catalog, View


class SecurityListing:
    """Adds `security` to definitions of tools."""

    def __init__(
        self,
        catalog: Catalog,
        risk: RiskPolicy,
        needs: Callable[[Tool], tuple[str, ...]],
    ) -> None:
        self._catalog = catalog
        self._risk = risk
        self._needs = needs

    def with_security(self, view: View, definition: bytes) -> bytes:
        """Add the `security` of a tool to its definition (MGP, Extended Tool Definition)."""
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
