"""The pages of tools: find one, read its definition, and call it with a form made from its schema."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from interlock.hub.admin.tools import Budget, Called, Found, ToolRow, ToolRows, Why
from interlock.web.console.argument_form import PREFIX, WHOLE, Field, arguments_of, fields_of
from interlock.web.console.page import Visit
from interlock.web.console.paging import part_of
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/tools"
PAGE: Final = 100
MAX_FOUND: Final = 20
MAX_RESULT: Final = 256 * 1024
"""Characters of a result on the page."""
CALL_S: Final = 60.0


async def show_all(visit: Visit) -> Response:
    """The tools that a query finds, or all of them, and the cost of the lists."""
    query = visit.request.query_params.get("query", "").strip()
    server = visit.request.query_params.get("server", "").strip()[:200]
    tools = (await visit.perform("tools", ToolRows, **({"server": server} if server else {}))).tools
    total = len(tools)
    if query:
        found = await visit.perform("find", Found, query=query, max_results=MAX_FOUND)
        by_name = {tool.name: tool for tool in tools}
        names = [str(hit.get("name")) for hit in found.tools]
        tools = [by_name[name] for name in names if name in by_name]
    budget = await visit.perform("budget", Budget)
    part = part_of(visit, tools, PAGE)
    address = f"{ADDRESS}?{urlencode({'server': server})}&" if server else f"{ADDRESS}?"
    return await visit.page(
        "tools.html",
        part=part,
        query=query,
        server=server,
        total=total,
        found=len(tools),
        budget=budget,
        address=address,
    )


async def show_one(visit: Visit) -> Response:
    """One tool, with a form to call it."""
    return await _page(visit, await _tool(visit), {}, None, None)


async def call(visit: Visit) -> Response:
    """Call the tool as the person, or judge such a call."""
    tool = await _tool(visit)
    fields = fields_of(tool.inputSchema)
    given = {name: value for name, value in visit.form.items() if name == WHOLE or name.startswith(PREFIX)}
    arguments = arguments_of(visit.form, fields)
    if visit.form.get("do") == "judge":
        judged = await visit.perform("why", Why, tool=tool.name, arguments=arguments)
        return await _page(visit, tool, given, None, judged)
    called = await visit.perform("call", Called, name=tool.name, arguments=arguments, timeout_s=CALL_S)
    return await _page(visit, tool, given, _pretty(called.result), None)


async def _page(visit: Visit, tool: ToolRow, given: dict[str, str], result: str | None, judged: Why | None) -> Response:
    fields: list[Field] | None = fields_of(tool.inputSchema)
    return await visit.page(
        "tool.html",
        tool=tool,
        schema=_pretty(tool.inputSchema),
        fields=fields,
        given=given,
        result=None if result is None else result[:MAX_RESULT],
        left_out=0 if result is None else max(0, len(result) - MAX_RESULT),
        judged=judged,
    )


async def _tool(visit: Visit) -> ToolRow:
    name = str(visit.request.path_params["name"])[:200]
    tools = (await visit.perform("tools", ToolRows)).tools
    found = next((tool for tool in tools if tool.name == name), None)
    if found is None:
        raise Fault("NOT_FOUND", f"no tool {name[:100]!r}", hint="/console/tools shows all")
    return found


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
