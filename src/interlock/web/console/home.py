"""The first page: the state of the hub and its servers, and what to do next where nothing is configured."""

from __future__ import annotations

from starlette.responses import Response

from interlock.hub.admin.approvals import DecisionRows
from interlock.hub.admin.status import Status
from interlock.web.console.page import Visit


async def show(visit: Visit) -> Response:
    """The page."""
    status = await visit.perform("status", Status)
    waiting = await visit.perform("approvals.list", DecisionRows, most=1)
    new = visit.console.hub_app.config.demo or not status.servers
    return await visit.page("home.html", hub=status, open=waiting.total, is_new=new)
