"""The official SDK's server, as an outside judge of what crosses the hub. It asks in the way of whichever era it is
spoken to in. Without arguments over standard streams; with `http`, it prints its port."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any, Literal

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("official")
begun: list[str] = []
cancelled: list[str] = []


class Order(BaseModel):
    """A form with a default and a choice."""

    name: str
    size: Literal["S", "M", "L"] = "M"
    count: int = 2


FORM = types.ElicitRequestFormParams(message="What will it be?", requested_schema=Order.model_json_schema())
PAGE = types.ElicitRequestURLParams(message="Log in", url="https://example.org/login", elicitation_id="e1")
SAMPLING = types.CreateMessageRequestParams(
    messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say hello"))],
    max_tokens=7,
    include_context="none",
    model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="claude")], cost_priority=0.2),
    temperature=0.5,
    tools=[types.Tool(name="look", description="Look it up.", input_schema={"type": "object"})],
    tool_choice=types.ToolChoice(mode="auto"),
)
NOTE = "note://one"
subscribers: list[Any] = []
"""Sessions that want to hear of the note, before the stateless era."""


def modern(ctx: Context) -> bool:
    return ctx.protocol_version is not None and ctx.protocol_version >= "2026"


def asks(**requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state="the server's own")


@server.tool()
async def order(ctx: Context) -> str | types.InputRequiredResult:
    """Ask for a form."""
    if not modern(ctx):
        answer: Any = await ctx.session.elicit_form(FORM.message, FORM.requested_schema, ctx.request_id)
    elif ctx.input_responses is None:
        return asks(form=types.ElicitRequest(params=FORM))
    else:
        assert ctx.request_state == "the server's own"
        answer = ctx.input_responses["form"]
    return f"{answer.action} {Order.model_validate(answer.content)}"


@server.tool()
async def visit(ctx: Context) -> str | types.InputRequiredResult:
    """Send the person to a page."""
    if not modern(ctx):
        answer: Any = await ctx.session.elicit_url(PAGE.message, PAGE.url, "e1", ctx.request_id)
    elif ctx.input_responses is None:
        return asks(page=types.ElicitRequest(params=types.ElicitRequestURLParams(message=PAGE.message, url=PAGE.url)))
    else:
        answer = ctx.input_responses["page"]
    return str(answer.action)


@server.tool()
async def think(ctx: Context) -> str | types.InputRequiredResult:
    """Have the model write something."""
    if not modern(ctx):
        answer: Any = await ctx.session.create_message(
            SAMPLING.messages,
            max_tokens=7,
            include_context="none",
            model_preferences=SAMPLING.model_preferences,
            temperature=0.5,
            tools=SAMPLING.tools,
            tool_choice=SAMPLING.tool_choice,
            related_request_id=ctx.request_id,
        )
    elif ctx.input_responses is None:
        return asks(thought=types.CreateMessageRequest(params=SAMPLING))
    else:
        answer = ctx.input_responses["thought"]
    said = answer.content[0] if isinstance(answer.content, list) else answer.content
    return str(said.text)


@server.tool()
async def places(ctx: Context) -> str | types.InputRequiredResult:
    """Ask for the roots."""
    if not modern(ctx):
        answer: Any = await ctx.session.list_roots()
    elif ctx.input_responses is None:
        return asks(roots=types.ListRootsRequest())
    else:
        answer = ctx.input_responses["roots"]
    return ",".join(str(root.uri) for root in answer.roots)


@server.tool()
async def steps(ctx: Context) -> str:
    """Tell how far it is."""
    for done in (1, 2, 3):
        await ctx.report_progress(done, 3, f"step {done}")
    return "done"


@server.tool()
async def speak(ctx: Context) -> str:
    """Log something."""
    await ctx.log("warning", "spoken")
    await asyncio.sleep(0.05)
    return "spoke"


@server.tool()
async def hang(mark: str) -> str:
    """Never end, and remember being cancelled."""
    begun.append(mark)
    try:
        await asyncio.sleep(600)
    except BaseException:
        cancelled.append(mark)
        raise
    return "late"


@server.tool()
async def ended() -> str:
    """The calls that were begun, and those that were cancelled, so far."""
    return json.dumps({"begun": begun, "cancelled": cancelled})


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Offer one more tool, and say so."""
    server.add_tool(ended, name=name)
    if modern(ctx):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.resource(NOTE)
def note() -> str:
    """A note that can change."""
    return "one"


async def subscribe(ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    """Remember who wants to hear of the note."""
    assert str(params.uri) == NOTE
    subscribers.append(ctx.session)
    return types.EmptyResult()


async def unsubscribe(ctx: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    """Forget them."""
    subscribers.clear()
    return types.EmptyResult()


@server.middleware.append
async def subscriptions(ctx: Any, call_next: Any) -> Any:
    """Offer and serve subscriptions to clients of the handshake era: the high-level server has no handlers for them."""
    if ctx.method == "resources/subscribe":
        return await subscribe(ctx, types.SubscribeRequestParams.model_validate(ctx.params))
    if ctx.method == "resources/unsubscribe":
        return await unsubscribe(ctx, types.UnsubscribeRequestParams.model_validate(ctx.params))
    result = await call_next(ctx)
    if ctx.method == "initialize":
        result["capabilities"]["resources"]["subscribe"] = True
    return result


@server.tool()
async def touch(ctx: Context) -> str:
    """Say that the note has changed."""
    if modern(ctx):
        await ctx.notify_resource_updated(NOTE)
    for session in subscribers:
        await session.send_resource_updated(NOTE)
    return "touched"


async def over_http() -> None:
    """Serve, and print the port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(over_http()) if "http" in sys.argv else server.run()
