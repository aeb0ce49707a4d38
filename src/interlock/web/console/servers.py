"""The pages of servers: their state, problems, last calls, permissions, quarantine and log, and commands for them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.audit_log import Entries
from interlock.hub.admin.servers import LogLines, ServerAfter
from interlock.hub.admin.status import ServerStatus, Status
from interlock.hub.admin.tools import ToolRows
from interlock.hub.audit.search import Entry
from interlock.web.console.charts import CALLS, Chart, chart_of
from interlock.web.console.page import Visit
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/servers"
PAGE: Final = 50
RECENT: Final = 1_000
"""Calls of all servers that the charts of the list are made from: one search, however many servers there are."""
LINES: Final = 100
COMMANDS: Final = {
    "start": ("servers.start", {}),
    "restart": ("servers.restart", {}),
    "drain": ("servers.stop", {}),
    "stop": ("servers.stop", {"now": True}),
}
"""The operation and the parameters for each button. `drain` waits for open calls."""


async def show_all(visit: Visit) -> Response:
    """The page of all servers."""
    return await visit.page("servers.html", **await _found(visit))


async def show_rows(visit: Visit) -> Response:
    """The table alone, for a page that is open."""
    return await visit.page("server_rows.html", **await _found(visit))


async def show_one(visit: Visit) -> Response:
    """The page of one server."""
    server = await _server(visit)
    tools = await visit.perform("tools", ToolRows, server=server.id) if server.tools else ToolRows([])
    return await visit.page(
        "server.html", server=server, chart=await _chart(visit, server.id), tools=tools.tools, lines=await _lines(visit)
    )


async def show_log(visit: Visit) -> Response:
    """The log alone, for a page that is open."""
    return await visit.page("server_log.html", server=await _server(visit), lines=await _lines(visit))


async def command(visit: Visit) -> Response:
    """Start, restart, drain or stop a server."""
    server = _id(visit)
    found = COMMANDS.get(visit.form.get("command", ""))
    if found is None:
        raise Fault("INVALID_PARAMS", "no such command", hint=f"one of {', '.join(COMMANDS)}")
    operation, params = found
    because = visit.form.get("because", "")
    await visit.perform(operation, ServerAfter, server=server, because=because, **params)
    return RedirectResponse(f"{ADDRESS}/{quote(server, safe='')}", 303)


async def _found(visit: Visit) -> dict[str, object]:
    query = visit.request.query_params.get("from", "0")
    first = int(query) if query.isdecimal() and len(query) < 10 else 0
    status = await visit.perform("status", Status)
    shown = status.servers[first : first + PAGE]
    charts = await _charts(visit)
    rows = [(server, charts.get(server.id) or chart_of(())) for server in shown]
    last = first + len(shown)
    return {
        "rows": rows,
        "first": first,
        "total": len(status.servers),
        "newer": max(0, first - PAGE) if first else None,
        "older": last if last < len(status.servers) else None,
    }


async def _server(visit: Visit) -> ServerStatus:
    id_ = _id(visit)
    status = await visit.perform("status", Status)
    found = next((server for server in status.servers if server.id == id_), None)
    if found is None:
        raise Fault("NOT_FOUND", f"no server {id_[:100]!r}", hint="/console/servers shows all")
    return found


async def _charts(visit: Visit) -> dict[str, Chart]:
    """The charts of all servers that had a call lately."""
    found = await visit.perform("audit.search", Entries, event="TOOL_EXECUTED", most=RECENT)
    calls: dict[str, list[Entry]] = {}
    for entry in found.entries[::-1]:
        calls.setdefault(entry.record.server, []).append(entry)
    return {server: chart_of(entries) for server, entries in calls.items()}


async def _chart(visit: Visit, server: str) -> Chart:
    found = await visit.perform("audit.search", Entries, server=server, event="TOOL_EXECUTED", most=CALLS)
    return chart_of(found.entries[::-1])


async def _lines(visit: Visit) -> LogLines:
    return await visit.perform("logs", LogLines, server=_id(visit), lines=LINES)


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["server"])[:200]
