"""Real servers of both eras: small ones written for the purpose, the official SDK's, and our own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import forking

sys.path.append(str(Path(__file__).parents[1] / "transports" / "http_client"))
sys.path.append(str(Path(__file__).parents[1] / "hub"))

from web_peer import RecordingListener, Script, WebPeer

from interlock.client import Connection
from interlock.client.dial import to_command, to_url
from interlock.transports.stdio.process import Command

SERVERS = Path(__file__).parent / "servers"
UNANSWERED = ("old, silent", "never", "modern, slow")
"""Moods of `eras.py` in which the probe gets no answer, or none before the handshake is tried."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def meet(stack: AsyncExitStack):
    """Connects to a server of a mood."""

    async def meet(mood: str, **options: object) -> Connection:
        command = Command(forking.command(str(SERVERS / "eras.py"), mood))
        # Only a server that leaves the probe unanswered is not waited for.
        options = {"timeout": 120.0, "probe_timeout": 0.3 if mood in UNANSWERED else 120.0, **options}
        connection = await Connection.open(to_command(command), RecordingListener(), **options)
        stack.push_async_callback(connection.close)
        return connection

    return meet


@pytest.fixture
async def visit(stack: AsyncExitStack):
    """Connects to a web server that does what the script says."""

    async def visit(script: Script, **options: object) -> tuple[Connection, WebPeer]:
        web = WebPeer(script)
        server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
        stack.callback(server.close)
        web.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        connection = await Connection.open(
            to_url(web.url), RecordingListener(), timeout=120.0, probe_timeout=120.0, **options
        )
        stack.push_async_callback(connection.close)
        return connection, web

    return visit


@asynccontextmanager
async def _official(*flags: str) -> AsyncIterator[str]:
    arguments = (str(SERVERS / "official.py"), "http", *flags)
    process = await asyncio.create_subprocess_exec(
        *forking.command(*arguments), stdout=-1, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


Target = str | list[str]


@pytest.fixture(params=["stdio", "http"])
async def official(request: pytest.FixtureRequest, stack: AsyncExitStack) -> Target:
    """The official SDK's server."""
    if request.param == "stdio":
        return list(forking.command(str(SERVERS / "official.py")))
    return await stack.enter_async_context(_official())


@pytest.fixture
async def official_without_streams(stack: AsyncExitStack) -> Target:
    """The same, answering every request with one JSON object."""
    return await stack.enter_async_context(_official("json"))
