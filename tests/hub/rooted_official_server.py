"""A server of the official SDK that asks for roots after the handshake and looks each of them up on the disk before it
knows them, as the official filesystem server does. Its tool `known` tells the ones it knows. With an argument, it asks
that many seconds after the handshake. Over standard streams."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

LOOKING_S = 0.1
"""How long it looks, as on a disk that is slow. It serves calls meanwhile."""
known: list[str] = []
asking: list[Any] = []


async def initialized(ctx: ServerRequestContext[Any], params: types.NotificationParams) -> None:
    capabilities = ctx.session.client_capabilities
    if capabilities is not None and capabilities.roots is not None:
        asking[0].start_soon(ask, ctx.session)


async def ask(session: Any) -> None:
    await anyio.sleep(float(sys.argv[1]) if sys.argv[1:] else 0)
    found = [Path(unquote(urlsplit(str(root.uri)).path)) for root in (await session.list_roots()).roots]
    await anyio.sleep(LOOKING_S)
    known[:] = [str(path) for path in found]


async def list_tools(ctx: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="known", input_schema={"type": "object"})])


async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=",".join(known))])


async def main() -> None:
    server: Server[Any] = Server("rooted", on_list_tools=list_tools, on_call_tool=call_tool)
    server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
    async with anyio.create_task_group() as group, stdio_server() as (read, write):
        asking.append(group)
        await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
