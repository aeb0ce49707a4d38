"""Serving Streamable HTTP. Apart from the rest, so that a server on standard streams need not load it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import PlainTextResponse

from interlock.server.server import Server
from interlock.transports.allocator import return_large_blocks
from interlock.transports.http.endpoint import McpEndpoint
from interlock.transports.http.serve import start

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application


class Address(msgspec.Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/mcp"


@contextlib.asynccontextmanager
async def serve_http(
    server: Server,
    host: str,
    port: int,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    app: ASGI3Application | None = None,
) -> AsyncIterator[Address]:
    """Serve Streamable HTTP while the context is open, and an application of the author's own beside it."""
    elsewhere = app or cast("ASGI3Application", PlainTextResponse("Not found. The MCP endpoint is /mcp.\n", 404))
    http = await start(
        McpEndpoint(server),
        elsewhere,
        host=host,
        port=port,
        hosts=hosts,
        origins=origins,
        lifespan=app is not None,
    )
    try:
        yield Address(http.host, http.port)
    finally:
        server.close()
        await http.stop()


async def serve_http_until_told(server: Server, host: str, port: int, app: ASGI3Application | None = None) -> None:
    """Serve Streamable HTTP until the process is interrupted or told to end."""
    return_large_blocks()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with serve_http(server, host, port, app=app) as address:
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGTERM, ended.set)
            loop.add_signal_handler(signal.SIGINT, ended.set)
        print(f"{server.name} serves {address.url}", file=sys.stderr, flush=True)
        await ended.wait()
