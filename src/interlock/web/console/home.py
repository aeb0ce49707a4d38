"""The first page: the state of the hub and its servers, and what to do next where nothing is configured."""

from __future__ import annotations

from starlette.responses import Response

from interlock.hub.admin.approvals import DecisionRows
from interlock.hub.admin.configuration import ClientRows
from interlock.hub.admin.sessions import SessionRows
from interlock.hub.admin.status import Status
from interlock.web.console.page import Visit

MAX_SERVERS = 100
"""Servers on the first page. All are on the page of servers."""


async def show(visit: Visit) -> Response:
    """The page."""
    status = await visit.perform("status", Status)
    waiting = await visit.perform("approvals.list", DecisionRows, most=1)
    sessions = await visit.perform("sessions.list", SessionRows)
    new = visit.console.hub_app.config.demo or not status.servers
    return await visit.page(
        "home.html",
        hub=status,
        servers=status.servers[:MAX_SERVERS],
        connected=sum(server.state.value == "connected" for server in status.servers),
        troubled=sum(server.problem is not None for server in status.servers),
        ailing=sum(server.health in ("degraded", "unhealthy") for server in status.servers),
        clients=len(sessions.sessions) + len(sessions.principals),
        open=waiting.total,
        is_new=new,
        found=(await visit.perform("clients.list", ClientRows)).clients if new and visit.is_owner else [],
    )
