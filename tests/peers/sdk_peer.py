"""A server written with the official SDK, for both transports and both eras: one tool for each thing that crosses."""

from __future__ import annotations

import argparse
import asyncio
import warnings
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

warnings.simplefilter("ignore")

server = MCPServer("sdk-peer", version="3.2.1", instructions="Be kind to peers.", log_level="ERROR")
given_up: list[str] = []


class Name(BaseModel):
    name: str


class Person(BaseModel):
    name: str
    age: int


def modern(ctx: Context) -> bool:
    """Whether this request is of the stateless era."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def person(name: str) -> Person:
    """Somebody, with structure."""
    return Person(name=name, age=42)


@server.tool()
def fail() -> str:
    """Never works."""
    raise ValueError("no luck today")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and tells how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool()
async def talk(ctx: Context) -> str:
    """Logs in three levels."""
    for level in ("debug", "warning", "error"):
        await ctx.log(level, f"a word of {level}")
    return "talked"


@server.tool()
async def wait(name: str, ctx: Context) -> str:
    """Waits until it is cancelled, and remembers that it was."""
    await ctx.report_progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        given_up.append(name)
    return "never"


@server.tool()
def waited() -> list[str]:
    """Whose waiting was cancelled."""
    return given_up


@server.tool()
async def elicit(ctx: Context) -> str | InputRequiredResult:
    """Asks the person for a name."""
    if not modern(ctx):
        answer = await ctx.elicit("Who are you?", Name)
        return answer.data.name if answer.action == "accept" else answer.action
    said = (ctx.input_responses or {}).get("who")
    if not isinstance(said, ElicitResult):
        params = ElicitRequestFormParams(message="Who are you?", requested_schema=Name.model_json_schema())
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)}, request_state="asked")
    assert ctx.request_state == "asked"
    return str((said.content or {}).get("name", said.action))


@server.tool()
async def sample(ctx: Context) -> str | InputRequiredResult:
    """Asks the client's model."""
    asked = [SamplingMessage(role="user", content=TextContent(text="Say something."))]
    if not modern(ctx):
        answer = await ctx.session.create_message(asked, max_tokens=10, related_request_id=ctx.request_id)
        return getattr(answer.content, "text", "")
    said = (ctx.input_responses or {}).get("model")
    if not isinstance(said, CreateMessageResult):
        question = CreateMessageRequest(params=CreateMessageRequestParams(messages=asked, max_tokens=10))
        return InputRequiredResult(input_requests={"model": question})
    return getattr(said.content, "text", "")


@server.tool()
async def roots(ctx: Context) -> str | InputRequiredResult:
    """Asks where the client works."""
    if not modern(ctx):
        return str((await ctx.session.list_roots()).roots[0].uri)
    said = (ctx.input_responses or {}).get("roots")
    if not isinstance(said, ListRootsResult):
        return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
    return str(said.roots[0].uri)


def grown() -> str:
    """Was not there before."""
    return "grown"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool, and says so."""
    server.add_tool(grown, name=name)
    if modern(ctx):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "grew"


@server.tool()
async def touch(ctx: Context) -> str:
    """Says that the note was changed."""
    if modern(ctx):
        await ctx.notify_resource_updated("peer://note")
    else:
        await ctx.session.send_resource_updated("peer://note")
    return "touched"


@server.resource("peer://note", mime_type="text/plain")
def note() -> str:
    """A note."""
    return "remember the milk"


@server.resource("peer://letter/{name}", mime_type="text/plain")
def letter(name: str) -> str:
    """A letter to somebody."""
    return f"Dear {name}"


@server.prompt()
def greet(name: str) -> str:
    """Greets."""
    return f"Greet {name} warmly."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Names that begin so."""
    return Completion(values=[name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)])


async def done(ctx: ServerRequestContext[Any], params: object) -> EmptyResult:
    """Methods that the SDK's server has no decorator for."""
    return EmptyResult()


for method, params in (
    ("logging/setLevel", SetLevelRequestParams),
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=port)
