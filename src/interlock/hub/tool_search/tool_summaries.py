"""What an answer tells a model of a tool, and what that costs: what the model needs to choose and to call it, and what
the hub adds.

The one rule: a definition goes out as JSON values, never as text that something could break out of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.discovery.tokens import at_most
from interlock.hub.catalog.offer import Tool, summary_of
from interlock.hub.catalog.views import Catalog, View
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import read_security

SCORE_TOKENS: Final = 14
"""What `relevance_score` costs."""


class ToolSummary(msgspec.Struct, frozen=True):
    """A tool as an answer tells of it."""

    entry: dict[str, object]
    tokens: int
    counted: bool
    """Whether that is what it costs, and not only what it cannot exceed."""


class ToolSummaries:
    """Describes tools."""

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
        """A tool as a view knows it (MGP, Dynamic Tool Discovery: Response)."""
        shown = self._catalog.render(view, tool)
        said = summary_of(shown) if tool.has_more else shown
        added: dict[str, object] = {
            "server_id": tool.server,
            "status": self._status(tool.server),
            "security": self._security(tool),
        }
        beside = msgspec.json.encode(added)
        cost = sum(self._tokens.of_text(part) + joint(part) for part in (said, beside))
        entry = msgspec.json.decode(said, type=dict[str, object])
        return ToolSummary({**entry, **added}, cost + SCORE_TOKENS, self._tokens.counted((said, beside)))

    def _security(self, tool: Tool) -> dict[str, object]:
        """What the server declares, with the risk that the hub reckons with and the permissions that it asks for."""
        declared, _ = read_security(tool.definition)
        said: dict[str, object] = {} if declared is None else msgspec.to_builtins(declared)
        told = {name: value for name, value in said.items() if name in _DECLARED and value not in (None, "", [], False)}
        if declared is not None and declared.reversible is False:
            told["reversible"] = False
        needed = self._needs(tool)
        permissions = {"permissions_required": needed} if needed else {}
        return {"risk_level": self._risk_of(tool).word, **permissions, **told}


def cost_of(entry: object) -> int:
    """What a small part of an answer cannot exceed."""
    return at_most(msgspec.json.encode(entry)) + 1


_DECLARED: Final = frozenset({"side_effects", "validator", "confirmation_required"})
