"""Clients from PyPI: `python public_clients.py NAME URL` lists the hub's tools with one, and calls one of them.

Prints one JSON object: how many tools the client sees, and the text of the result. It runs where those packages are
installed, and imports nothing of this project.
"""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

TOOL, ARGUMENTS = "echo", {"message": "hello"}
Seen = tuple[int, str]


async def mcp(url: str) -> Seen:
    from mcp import Client

    async with Client(url) as client:
        tools = (await client.list_tools()).tools
        return len(tools), str(await client.call_tool(TOOL, ARGUMENTS))


async def fastmcp(url: str) -> Seen:
    from fastmcp import Client

    async with Client(url) as client:
        return len(await client.list_tools()), str(await client.call_tool(TOOL, ARGUMENTS))


async def mcp_use(url: str) -> Seen:
    from mcp_use import MCPClient

    client = MCPClient.from_dict({"mcpServers": {"hub": {"url": url}}})
    session = await client.create_session("hub")
    try:
        return len(await session.list_tools()), str(await session.call_tool(TOOL, ARGUMENTS))
    finally:
        await client.close_all_sessions()


async def langchain(url: str) -> Seen:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    tools = await MultiServerMCPClient({"hub": {"transport": "streamable_http", "url": url}}).get_tools()
    named = {tool.name: tool for tool in tools}
    return len(tools), str(await named[TOOL].ainvoke(ARGUMENTS))


async def pydantic_ai(url: str) -> Seen:
    from pydantic_ai.mcp import MCPToolset

    server = MCPToolset(url)
    async with server:
        return len(await server.list_tools()), str(await server.direct_call_tool(TOOL, ARGUMENTS))


async def openai_agents(url: str) -> Seen:
    from agents.mcp import MCPServerStreamableHttp

    async with MCPServerStreamableHttp(params={"url": url}, client_session_timeout_seconds=60) as server:
        return len(await server.list_tools()), str(await server.call_tool(TOOL, ARGUMENTS))


async def strands(url: str) -> Seen:
    from mcp.client import streamable_http
    from strands.tools.mcp import MCPClient

    connect = getattr(streamable_http, "streamablehttp_client", None) or streamable_http.streamable_http_client

    def visit() -> Seen:
        with MCPClient(lambda: connect(url)) as client:
            tools = client.list_tools_sync()
            return len(tools), str(client.call_tool_sync("1", TOOL, ARGUMENTS))

    return await asyncio.to_thread(visit)


async def llama_index(url: str) -> Seen:
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    client = BasicMCPClient(url)
    tools = await McpToolSpec(client).to_tool_list_async()
    return len(tools), str(await client.call_tool(TOOL, ARGUMENTS))


CLIENTS: dict[str, Callable[[str], Awaitable[Seen]]] = {
    "mcp": mcp,
    "fastmcp": fastmcp,
    "mcp-use": mcp_use,
    "langchain-mcp-adapters": langchain,
    "pydantic-ai-slim": pydantic_ai,
    "openai-agents": openai_agents,
    "strands-agents": strands,
    "llama-index-tools-mcp": llama_index,
}


def main(name: str, url: str) -> None:
    tools, result = asyncio.run(CLIENTS[name](url))
    said: dict[str, Any] = {"tools": tools, "result": result}
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
