"""The pages of tools: find one, read its definition, and call it with a form made from its schema."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from interlock.hub.admin.tools import Called, ContextCost, FoundTools, ToolRow, ToolRows, Why
from interlock.web.console.argument_form import PREFIX, WHOLE, Field, arguments_of, fields_of
from interlock.web.console.page import Visit
from interlock.web.console.paging import part_of
from interlock.web.rest.outcomes import status_of
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/tools"
PAGE: Final = 100
MAX_FOUND: Final = 20
MAX_RESULT: Final = 128 * 1024
"""Bytes of a result on the page. A longer result is cut and not formatted, because that would delay calls."""
CALL_S: Final = 60.0


async def show_all(visit: Visit) -> Response:
    """The tools that a query finds, or all of them, and the cost of the lists."""
    query = visit.request.query_params.get("query", "").strip()
    server = visit.request.query_params.get("server", "").strip()[:200]
    tools = (await visit.perform("tools", ToolRows, **({"server": server} if server else {}))).tools
    total = len(tools)
    if query:
        found = await visit.perform("find", FoundTools, query=query, max_results=MAX_FOUND)
        by_name = {tool.name: tool for tool in tools}
        names = [str(hit.get("name")) for hit in found.tools]
        tools = [by_name[name] for name in names if name in by_name]
    budget = await visit.perform("budget", ContextCost)
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
    return await _page(visit, await _tool(visit), {})


async def call(visit: Visit) -> Response:
    """Call the tool as the person, or judge such a call."""
    tool = await _tool(visit)
    fields = fields_of(msgspec.json.decode(tool.inputSchema))
    form = {name: value for name, value in visit.form.items() if name == WHOLE or name.startswith(PREFIX)}
    try:
        arguments = arguments_of(visit.form, fields)
        if visit.form.get("do") == "judge":
            you = visit.session.principal
            judged = await visit.perform("why", Why, agent=you.id, kind=you.kind, tool=tool.name, arguments=arguments)
            return await _page(visit, tool, form, judged=judged)
        called = await visit.perform("call", Called, name=tool.name, arguments=arguments, timeout_s=CALL_S)
    except Fault as fault:
        # Keep the filled-in form, so that a mistake does not cost all of the input.
        page = await _page(visit, tool, form, problem=f"{fault.message}. {fault.hint}")
        page.status_code = status_of(fault)
        return page
    return await _page(visit, tool, form, called.result)


async def _page(
    visit: Visit,
    tool: ToolRow,
    form: dict[str, str],
    result: msgspec.Raw | None = None,
    *,
    judged: Why | None = None,
    problem: str = "",
) -> Response:
    fields: list[Field] | None = fields_of(msgspec.json.decode(tool.inputSchema))
    return await visit.page(
        "tool.html",
        tool=tool,
        schema=_laid_out(bytes(tool.inputSchema)),
        fields=fields,
        form=form,
        result=None if result is None else _laid_out(bytes(result)),
        left_out=0 if result is None else max(0, len(bytes(result)) - MAX_RESULT),
        judged=judged,
        problem=problem,
    )


async def _tool(visit: Visit) -> ToolRow:
    name = str(visit.request.path_params["name"])[:200]
    tools = (await visit.perform("tools", ToolRows, name=name)).tools
    if not tools:
        raise Fault("NOT_FOUND", f"no tool {name[:100]!r}", hint="/console/tools shows all")
    return tools[0]


def _laid_out(text: bytes) -> str:
    if len(text) > MAX_RESULT:
        return text[:MAX_RESULT].decode(errors="ignore")
    return msgspec.json.format(text, indent=2).decode()
