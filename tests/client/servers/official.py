"""The official SDK's server, as an outside judge. Without arguments over stdio; with `http`, prints its port."""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("official", instructions="Be kind.")


class Age(BaseModel):
    years: int = 7


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, with progress."""
    for number in range(to):
        await ctx.report_progress(number + 1, to, f"at {number + 1}")
    return "done"


@server.tool()
async def wait() -> str:
    """Never come back."""
    await asyncio.sleep(600)
    return "late"


@server.tool()
async def ask_age(ctx: Context) -> str:
    """Ask the person behind the client."""
    answer = await ctx.elicit("How old?", Age)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "hello"


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}"


async def over_http() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    port = listening.getsockname()[1]
    config = uvicorn.Config(server.streamable_http_app(json_response="json" in sys.argv), log_level="warning")
    print(port, flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if "http" in sys.argv:
    asyncio.run(over_http())
else:
    server.run()
