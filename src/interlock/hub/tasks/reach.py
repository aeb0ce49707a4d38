"""Checks whether a task's owner may still reach its tool. A revoked right also ends access to tasks."""

from __future__ import annotations

from interlock.hub.auth.access import Access
from interlock.hub.calls.gates.access import AccessGate
from interlock.hub.calls.verdicts import Pass
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.views import Catalog
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.tasks.ledger import StoredTask


class Reach:
    """Uses the access gate, as a call of the tool would."""

    def __init__(self, catalog: Catalog, access: Access) -> None:
        self._catalog = catalog
        # The verdict is used at once, so its expiry does not matter.
        self._gate = AccessGate(access, lambda: 0.0)

    def __call__(self, caller: SessionCaller, task: StoredTask) -> Target | None:
        """The tool of a task; None where the caller may not reach it in this view now."""
        if not self._catalog.sees_server(caller.view, task.server):
            return None
        offer = self._catalog.offer(task.server)
        tool = None
        if offer is not None:
            tool = offer.tools.get(task.tool)
            if tool is None or tool.name != task.tool:
                tool = next((each for each in offer.tools.values() if each.name == task.tool), None)
        target = Target("tool", task.server, task.tool, tool)
        return target if isinstance(self._gate.plan(caller.principal, target), Pass) else None
