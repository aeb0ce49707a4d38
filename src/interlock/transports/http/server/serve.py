"""Serves HTTP on the running loop, on an address or a socket of the caller."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from interlock.transports.http.bounds import DEFAULT_BOUNDS, HttpBounds
from interlock.transports.http.server.asgi_application import AsgiApplication
from interlock.transports.http.server.connection import HttpConnection
from interlock.transports.http.server.guard import allowed_hosts_for
from interlock.transports.http.server.listener import AcceptedConnection, Endpoint, HttpListener, mcp_paths
from interlock.transports.http.server.upgrades import Upgrader
from interlock.wire.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from starlette.types import ASGIApp

BACKLOG = 2_048
LOOKED_AT_ONCE = 256
DRAIN_LOOK_S = 0.05
"""How often a server that stops looks whether its last connection has closed."""
LAST_READ_S = 0.5
"""How long clients may take to read the last answers: those of calls that did not finish in time."""


async def start(
    endpoint: Endpoint,
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    sock: socket.socket | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    local_names: Iterable[str] = (),
    limits: Limits = DEFAULT,
    bounds: HttpBounds = DEFAULT_BOUNDS,
    is_mcp: Callable[[str], bool] = mcp_paths,
    upgrader: Upgrader | None = None,
    lifespan: bool = False,
    begin: bool = True,
) -> HttpServer:
    """Listen and serve until `stop`. Port 0 takes a free one; `hosts` and `origins` are allowed besides loopback.
    `local_names` are further names of this machine, with the port of this server.

    `app` gets requests outside MCP paths, `upgrader` the upgrades of its own path. Without `lifespan` the app gets
    no lifespan events of ASGI: its owner starts and stops it. Without `begin` the address is taken, and clients wait
    until `HttpServer.begin`.
    """
    if sock is None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, port), family=family, backlog=BACKLOG)
    else:
        host = sock.getsockname()[0]
    port = sock.getsockname()[1]
    allowed = allowed_hosts_for(host, port, hosts, origins, local_names)
    listener = HttpListener(endpoint, allowed, limits, bounds, is_mcp, upgrader)
    server = HttpServer(listener, AsgiApplication(app, lifespan=lifespan), sock, host, port)
    if begin:
        await server.begin()
    return server


class HttpServer:
    """A listening address."""

    def __init__(
        self, listener: HttpListener, application: AsgiApplication, sock: socket.socket, host: str, port: int
    ) -> None:
        self.listener = listener
        self.host = host
        self.port = port
        self._application = application
        self._sock = sock
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Serve, also clients that wait already. Raises OSError where the system refuses that."""
        if not await self._application.start():
            self._sock.close()
            raise RuntimeError("the application beside it did not start; the log says why")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=self._sock, backlog=BACKLOG)
        self._sweep()

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take nothing new, let calls under way finish within the bound, answer the others, then end everything."""
        if self._server is None:
            self._sock.close()
            return
        listener = self.listener
        listener.endpoint.drain()
        self._server.close()
        self._server = None
        self._sock.close()
        for connection in list(listener.connections):
            connection.shutdown()
        await self._wait_for_connections(drain_s)
        await self._answer_unfinished()
        await self._application.stop()
        for connection in list(listener.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def _answer_unfinished(self) -> None:
        """Answer the calls that are still under way, and give their clients a moment to read it."""
        listener = self.listener
        listener.endpoint.close()
        for connection in list(listener.connections):
            if isinstance(connection, HttpConnection):
                connection.answer_unfinished()
        self._application.abort_exchanges()
        await self._wait_for_connections(LAST_READ_S)

    async def _wait_for_connections(self, seconds: float) -> None:
        """Until all connections have closed, within a bound."""
        until = time.monotonic() + seconds
        while (self.listener.connections or self._application.tasks) and time.monotonic() < until:
            await asyncio.sleep(DRAIN_LOOK_S)

    def _connection(self) -> HttpConnection:
        return HttpConnection(self.listener, self._application)

    def _sweep(self) -> None:
        now = time.monotonic()
        self.listener.sweep(now)
        self._look(iter(tuple(self.listener.connections)), now)
        self._sweeper = asyncio.get_running_loop().call_later(self.listener.bounds.resolution_s, self._sweep)

    def _look(self, waiting: Iterator[AcceptedConnection], now: float) -> None:
        """Check some of the connections for timeouts. Others follow in later turns, so that no call waits for all."""
        looked = 0
        for connection in islice(waiting, LOOKED_AT_ONCE):
            looked += 1
            if connection in self.listener.connections:
                connection.sweep(now)
        if looked == LOOKED_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._look, waiting, now)
