"""Checks whether a task's principal may still reach its tool. A revoked right also ends access to tasks."""

from __future__ import annotations

from interlock.hub.auth.access import Access
from interlock.hub.calls.gates.access import AccessGate
from interlock.hub.calls.verdicts import Pass
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.views import Catalog
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.tasks.ledger import StoredTask


class ToolsByName:
    """Finds tools by their names at their servers. A client may ask for hundreds of tasks of tools at once.

    The names of an offer are indexed at the first look that needs them, and kept while the offer is current.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._indexed: dict[str, tuple[Offer, dict[str, Tool]]] = {}

    def get(self, server: str, name: str) -> Tool | None:
        """The tool with this name at the server, if the server offers it now."""
        offer = self._catalog.offer(server)
        if offer is None:
            return None
        tool = offer.tools.get(name)
        if tool is not None and tool.name == name:
            return tool
        known = self._indexed.get(server)
        if known is None or known[0] is not offer:
            current = {each: kept for each, kept in self._indexed.items() if self._catalog.offer(each) is kept[0]}
            # If two tools have the same name, use the first.
            known = (offer, {tool.name: tool for tool in reversed(offer.tools.values())})
            self._indexed = {**current, server: known}
        return known[1].get(name)


class TaskAccess:
    """Uses the access gate, as a call of the tool would."""

    def __init__(self, catalog: Catalog, access: Access) -> None:
        self._catalog = catalog
        self._tools = ToolsByName(catalog)
        # The verdict is used at once, so its expiry does not matter.
        self._gate = AccessGate(access, lambda: 0.0)

    def __call__(self, caller: SessionCaller, task: StoredTask) -> Target | None:
        """The tool of a task; None where the caller may not reach it in this view now."""
        if not self._catalog.sees_server(caller.view, task.server):
            return None
        target = Target("tool", task.server, task.tool, self._tools.get(task.server, task.tool))
        return target if isinstance(self._gate.plan(caller.principal, target), Pass) else None
