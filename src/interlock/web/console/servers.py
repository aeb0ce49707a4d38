"""The pages of servers: their state, problems, last calls, permissions, quarantine and log, and commands for them."""

from __future__ import annotations

import shlex
from typing import Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.audit_log import Entries
from interlock.hub.admin.server_entries import ChangedFile
from interlock.hub.admin.servers import LogLines, ServerAfter
from interlock.hub.admin.status import ServerStatus, Status
from interlock.hub.admin.tools import ToolRows
from interlock.hub.audit.search import FoundEntry
from interlock.web.console.charts import CALLS, Chart, chart_of
from interlock.web.console.page import Visit
from interlock.web.console.paging import part_of
from interlock.web.console.server_login import logins_of
from interlock.web.console.server_login import server_of as _id
from interlock.web.rest.outcomes import status_of
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/servers"
PAGE: Final = 50
RECENT: Final = 1_000
"""Calls of all servers that the charts of the list are made from: one search, however many servers there are."""
LINES: Final = 100
MAX_TOOLS: Final = 200
"""Tools on the page of a server."""
COMMANDS: Final = {
    "start": ("servers.start", {}),
    "restart": ("servers.restart", {}),
    "drain": ("servers.stop", {}),
    "stop": ("servers.stop", {"now": True}),
}
"""The operation and the parameters for each button. `drain` waits for open calls."""
_CHANGED: Final = {
    "added": "The server was added.",
    "remove": "The server was removed.",
    "start": "The server is starting.",
    "restart": "The server was restarted.",
    "drain": "The server was stopped after its open calls.",
    "stop": "The server was stopped.",
    "enable": "The tool is offered again.",
    "disable": "The tool is offered to nobody.",
}


async def show_all(visit: Visit) -> Response:
    """The page of all servers."""
    return await visit.page("servers.html", **await _found(visit), changed=_changed(visit), form={}, problem="")


async def show_rows(visit: Visit) -> Response:
    """The table alone, for a page that is open."""
    return await visit.page("server_rows.html", **await _found(visit))


async def add(visit: Visit) -> Response:
    """Add a server from a URL or a command. A mistake keeps the form as it was filled in."""
    try:
        return await _added(visit)
    except Fault as fault:
        if fault.name != "INVALID_PARAMS":
            raise
        problem = f"{fault.message}. {fault.hint}"
        page = await visit.page("servers.html", **await _found(visit), changed="", form=visit.form, problem=problem)
        page.status_code = status_of(fault)
        return page


async def _added(visit: Visit) -> Response:
    form, server = visit.form, visit.form.get("server", "").strip()
    where, values = form.get("where", "").strip(), _values(form.get("values", ""))
    params: dict[str, object] = {"server": server}
    if "://" in where.partition(" ")[0]:
        params |= {"url": where, "headers": values}
    else:
        params |= {"command": _words(where), "env": values}
    added = await visit.perform("servers.add", ChangedFile, **params)
    if not added.applied:
        reasons = "; ".join(problem.message for problem in added.problems)
        raise Fault(
            "INVALID_PARAMS", f"{server} was added to {added.path}, and the hub cannot use that file: {reasons}"
        )
    return _to(server, "added")


async def show_one(visit: Visit) -> Response:
    """The page of one server."""
    status = await visit.perform("status", Status)
    server = _named(status, _id(visit))
    tools = (await visit.perform("tools", ToolRows, server=server.id)).tools if server.tools else []
    logins = await logins_of(visit, server.id) if server.transport == "http" else []
    return await visit.page(
        "server.html",
        server=server,
        share=_share(status, server),
        chart=await _chart(visit, server.id),
        tools=tools[:MAX_TOOLS],
        more_tools=max(0, len(tools) - MAX_TOOLS),
        logins=logins,
        lines=await _lines(visit),
        changed=_changed(visit),
    )


async def show_state(visit: Visit) -> Response:
    """The state alone, for a page that is open."""
    return await visit.page("server_state.html", server=await _server(visit))


async def show_log(visit: Visit) -> Response:
    """The log alone, for a page that is open."""
    return await visit.page("server_log.html", server=await _server(visit), lines=await _lines(visit))


async def command(visit: Visit) -> Response:
    """Start, restart, drain, stop or remove a server."""
    server, wanted, because = _id(visit), visit.form.get("command", ""), visit.form.get("because", "")
    if wanted == "remove":
        await visit.perform("servers.remove", ChangedFile, server=server, because=because)
        return RedirectResponse(ADDRESS + "?done=remove", 303)
    found = COMMANDS.get(wanted)
    if found is None:
        raise Fault("INVALID_PARAMS", "no such command", hint=f"one of {', '.join(COMMANDS)}, remove")
    operation, params = found
    await visit.perform(operation, ServerAfter, server=server, because=because, **params)
    return _to(server, wanted)


async def switch_tool(visit: Visit) -> Response:
    """Enable or disable a tool."""
    server, tool, wanted = _id(visit), visit.form.get("tool", ""), visit.form.get("command", "")
    if wanted not in ("enable", "disable"):
        raise Fault("INVALID_PARAMS", "no such command", hint="one of enable, disable")
    await visit.perform(f"tools.{wanted}", ChangedFile, server=server, tool=tool)
    return _to(server, wanted)


def _changed(visit: Visit) -> str:
    """The person's last action."""
    return _CHANGED.get(visit.request.query_params.get("done", ""), "")


def _to(server: str, done: str) -> Response:
    return RedirectResponse(f"{ADDRESS}/{quote(server, safe='')}?done={done}", 303)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        raise Fault("INVALID_PARAMS", "the command has an open quotation", hint="close it") from None


def _values(text: str) -> dict[str, str]:
    """Lines of the form NAME=VALUE."""
    values: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Fault("INVALID_PARAMS", "a line of the values has no `=`", hint="write NAME=VALUE in each line")
        values[name.strip()] = value.strip()
    return values


def _share(status: Status, server: ServerStatus) -> int | None:
    """How much of the context of all tools a server takes, in percent."""
    total = sum(each.tokens or 0 for each in status.servers)
    return None if not total or server.tokens is None else round(100 * server.tokens / total)


async def _found(visit: Visit) -> dict[str, object]:
    part = part_of(visit, (await visit.perform("status", Status)).servers, PAGE)
    charts = await _charts(visit)
    rows = [(server, charts.get(server.id) or chart_of(())) for server in part.items]
    return {"rows": rows, "part": part}


async def _server(visit: Visit) -> ServerStatus:
    return _named(await visit.perform("status", Status), _id(visit))


def _named(status: Status, id: str) -> ServerStatus:
    found = next((server for server in status.servers if server.id == id), None)
    if found is None:
        raise Fault("NOT_FOUND", f"no server {id[:100]!r}", hint="/console/servers shows all")
    return found


async def _charts(visit: Visit) -> dict[str, Chart]:
    """The charts of all servers that had a call lately."""
    found = await visit.perform("audit.search", Entries, event="TOOL_EXECUTED", most=RECENT)
    calls: dict[str, list[FoundEntry]] = {}
    for entry in found.entries[::-1]:
        calls.setdefault(entry.record.server, []).append(entry)
    return {server: chart_of(entries) for server, entries in calls.items()}


async def _chart(visit: Visit, server: str) -> Chart:
    found = await visit.perform("audit.search", Entries, server=server, event="TOOL_EXECUTED", most=CALLS)
    return chart_of(found.entries[::-1])


async def _lines(visit: Visit) -> LogLines:
    return await visit.perform("logs", LogLines, server=_id(visit), lines=LINES)
