"""Serves Streamable HTTP. A module of its own, so that a server on standard streams does not load it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import PlainTextResponse

from interlock.process.allocator import return_large_blocks
from interlock.server.runner import ClosableService
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Address(msgspec.Struct, frozen=True):
    """The address that a server listens on."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL of its MCP endpoint."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/mcp"


@contextlib.asynccontextmanager
async def serve_http(
    server: ClosableService,
    host: str,
    port: int,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    app: ASGIApp | None = None,
) -> AsyncIterator[Address]:
    """Serve Streamable HTTP while the context is open, and the author's ASGI application at every other path."""
    fallback = app or PlainTextResponse("Not found. The MCP endpoint is /mcp.\n", 404)
    endpoint, lifespan = McpEndpoint(server), app is not None
    http = await start(endpoint, fallback, host=host, port=port, hosts=hosts, origins=origins, lifespan=lifespan)
    try:
        yield Address(http.host, http.port)
    finally:
        server.close()
        await http.stop()


async def serve_http_until_signal(server: ClosableService, host: str, port: int, app: ASGIApp | None = None) -> None:
    """Serve Streamable HTTP until SIGINT or SIGTERM."""
    return_large_blocks()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with serve_http(server, host, port, app=app) as address:
        with contextlib.suppress(NotImplementedError):
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, ended.set)
        print(f"{server.name} serves {address.url}", file=sys.stderr, flush=True)
        await ended.wait()
