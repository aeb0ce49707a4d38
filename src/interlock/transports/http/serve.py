"""Run it: uvicorn on the running loop, with our connections, on an address or a socket of ours."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import uvicorn

from interlock.transports.http.bounds import DEFAULT_BOUNDS, HttpBounds
from interlock.transports.http.guard import allowed_hosts_for
from interlock.transports.http.listener import Connection, Endpoint, HttpListener, mcp_paths
from interlock.transports.http.protocol import HubProtocol
from interlock.transports.http.upgrades import Upgrader
from interlock.wire.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

BACKLOG = 2_048
LOOKED_AT_ONCE = 256


async def start(
    endpoint: Endpoint,
    app: ASGI3Application,
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

    `app` gets whatever is not on an MCP path, `upgrader` the upgrades of its own path. Without `lifespan` the app gets
    no lifespan events of ASGI: its owner starts and stops it. Without `begin` the address is taken, and clients wait
    until `HttpServer.begin`.
    """
    if sock is None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, port), family=family, backlog=BACKLOG)
    else:
        host = sock.getsockname()[0]
    port = sock.getsockname()[1]
    faces = allowed_hosts_for(host, port, hosts, origins, local_names)
    listener = HttpListener(endpoint, faces, limits, bounds, is_mcp, upgrader)
    server = HttpServer(listener, app, sock, host, port, lifespan=lifespan)
    if begin:
        await server.begin()
    return server


class HttpServer:
    """A listening address."""

    def __init__(
        self,
        listener: HttpListener,
        app: ASGI3Application,
        sock: socket.socket,
        host: str,
        port: int,
        *,
        lifespan: bool = False,
    ) -> None:
        self.listener = listener
        self.host = host
        self.port = port
        self._sock = sock
        config = uvicorn.Config(
            app,
            # uvicorn calls it with its own arguments by name, as it would a class.
            http=cast("type[asyncio.Protocol]", functools.partial(HubProtocol, listener)),
            loop="none",
            ws="none",
            lifespan="auto" if lifespan else "off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
        )
        self._uvicorn = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Serve, also clients that wait already. Raises what the system says if that cannot be."""
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[self._sock]), name=f"http {self.port}")
        ready = asyncio.create_task(self._uvicorn.ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not self._uvicorn.ready.is_set():
            ready.cancel()
            await self._task
            self._sock.close()
            raise RuntimeError("the application beside it did not start; the log says why")
        self._sweep()

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take nothing new, let calls under way finish within the bound, then end everything."""
        if self._task is None:
            self._sock.close()
            return
        self.listener.endpoint.drain()
        self._uvicorn.config.timeout_graceful_shutdown = drain_s  # type: ignore[assignment]
        self._uvicorn.leave()
        await self._task
        self._task = None
        for connection in list(self.listener.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        self.listener.endpoint.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _sweep(self) -> None:
        now = time.monotonic()
        self.listener.sweep(now)
        self._look(iter(tuple(self.listener.connections)), now)
        self._sweeper = asyncio.get_running_loop().call_later(self.listener.bounds.resolution_s, self._sweep)

    def _look(self, waiting: Iterator[Connection], now: float) -> None:
        """See which connections were waited for too long: some at a time, so that no call waits for all of them."""
        looked = 0
        for connection in islice(waiting, LOOKED_AT_ONCE):
            looked += 1
            if connection in self.listener.connections:
                connection.sweep(now)
        if looked == LOOKED_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._look, waiting, now)


class _Uvicorn(uvicorn.Server):
    """uvicorn as a guest: signals are the process's own affair, and it says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Begin to shut down."""
        self.should_exit = True
        self._leaving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            # The application did not start. That is no reason to end the whole process.
            self.should_exit = True
        else:
            self.ready.set()

    async def main_loop(self) -> None:
        # The parent looks ten times a second whether it should leave; an idle hub need not wake for that.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._leaving.wait()
