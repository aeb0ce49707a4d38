"""Summaries of tools in answers to a model, with their tokens: what the model needs to choose and to call a tool.

A definition goes out as JSON values, never as text that injected content could break out of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.discovery.tokens import at_most
from interlock.hub.catalog.items import Tool, summary_of
from interlock.hub.catalog.views import Catalog, View
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import read_security

SCORE_TOKENS: Final = 14
"""The tokens of `relevance_score`."""


class ToolSummary(msgspec.Struct, frozen=True):
    """The summary of a tool."""

    entry: dict[str, object]
    tokens: int
    counted: bool
    """Whether `tokens` is exact rather than an upper bound."""


class ToolSummaries:
    """Makes summaries."""

    def __init__(
        self,
        catalog: Catalog,
        tokens: TokenCounts,
        status: Callable[[str], str],
        risk_of: Callable[[Tool], Risk],
        needs: Callable[[Tool], tuple[str, ...]],
    ) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._status = status
        self._risk_of = risk_of
        self._needs = needs

    def of(self, view: View, tool: Tool) -> ToolSummary:
        """The summary of a tool in a view (MGP, Dynamic Tool Discovery: Response)."""
        shown = self._catalog.render(view, tool)
        summary = summary_of(shown) if tool.has_more else shown
        added: dict[str, object] = {
            "server_id": tool.server,
            "status": self._status(tool.server),
            "security": self._security(tool),
        }
        encoded = msgspec.json.encode(added)
        cost = sum(self._tokens.of_text(part) + joint(part) for part in (summary, encoded))
        entry = msgspec.json.decode(summary, type=dict[str, object])
        return ToolSummary({**entry, **added}, cost + SCORE_TOKENS, self._tokens.counted((summary, encoded)))

    def _security(self, tool: Tool) -> dict[str, object]:
        """The server's declaration, with the risk and the required permissions that the hub determined."""
        declared, _ = read_security(tool.definition)
        fields: dict[str, object] = {} if declared is None else msgspec.to_builtins(declared)
        shown = {
            name: value for name, value in fields.items() if name in _DECLARED and value not in (None, "", [], False)
        }
        if declared is not None and declared.reversible is False:
            shown["reversible"] = False
        needed = self._needs(tool)
        permissions = {"permissions_required": needed} if needed else {}
        return {"risk_level": self._risk_of(tool).word, **permissions, **shown}


def cost_of(entry: object) -> int:
    """Upper bound for the tokens of a small part of an answer."""
    return at_most(msgspec.json.encode(entry)) + 1


_DECLARED: Final = frozenset({"side_effects", "validator", "confirmation_required"})
