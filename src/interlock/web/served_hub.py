"""A hub in this process with everything that serves it: HTTP, the control socket, rooms and conversations.

The order is fixed. `listen` takes the address, so that a second hub fails early. `start` serves no client before every
part is ready. `stop` keeps the addresses open until the open calls have ended or the time to drain is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.config.files import write_atomically
from interlock.config.home import info_path, socket_path
from interlock.config.settings import Config
from interlock.host import Host
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.hub.authentication import is_mcp_path
from interlock.hub.cannot_start import CannotStart
from interlock.hub.upstreams.commands import DRAIN_S
from interlock.hub.upstreams.earlier_runs import EarlierRuns
from interlock.process.descriptors import for_clients, raise_limit
from interlock.process.garbage_collection import Collector
from interlock.process.loop_watch import LoopWatch
from interlock.process.memory import FreeMemory, return_free_memory
from interlock.rooms.gateway import Gateway
from interlock.rooms.upgrade import RoomUpgrader
from interlock.store import StoreError
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.http.server.serve import HttpServer
from interlock.transports.http.server.serve import start as start_http
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.unread_bytes import UnreadBytes
from interlock.version import VERSION
from interlock.web.control import ControlSocket
from interlock.web.lazy_app import LazyApp

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DRAIN_LOOK_S: Final = 0.05
"""How often a draining hub checks whether its last call has ended."""
LOOK_EVERY_S: Final = 1.0
"""How often the hub checks the files of its configuration for changes."""


class ServedHub:
    """One hub and its servers for clients."""

    def __init__(self, config: Config, home: Path) -> None:
        self._config = config
        self._home = home
        self.hub_app = hub_app = HubApp(config, home)
        self._rooms = Gateway(hub_app)
        self._conversations = Host(hub_app, rooms=self._rooms.topics)
        self._operations = Operations(hub_app, hub_app.readiness.stop, self._rooms, self._conversations)
        limits = config.hub.limits
        bounds = HttpBounds(sse_streams=limits.sessions, connections=for_clients(raise_limit()))
        self._bounds = bounds = bounds.for_messages(limits.message_bytes)
        unread = UnreadBytes(bounds.unread_bytes, bounds.unread_bytes_per_peer)
        self._control = ControlSocket(hub_app, self._operations, unread, RequestBytes(bounds.held_bytes))
        self._earlier_runs = EarlierRuns(home, hub_app.logs)
        self._http: HttpServer
        self._loop_watch: LoopWatch
        self._orphans_task: asyncio.Task[None]
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self) -> None:
        """Take the HTTP address. Clients that connect now wait until `start`. Raises CannotStart."""
        hub_app, settings = self.hub_app, self._config.hub
        host, port = settings.address
        try:
            self._http = await start_http(
                McpEndpoint(hub_app.service, hub_app.limits, self._bounds),
                LazyApp("interlock.web.app", self._other_routes),
                host=host,
                port=port,
                hosts=settings.allowed_hosts,
                origins=settings.allowed_origins,
                local_names=(self._operations.console.address.name,),
                limits=hub_app.limits,
                bounds=self._bounds,
                is_mcp=is_mcp_path,
                upgrader=RoomUpgrader(hub_app, self._rooms),
                begin=False,
            )
        except OSError as cause:
            hint = (
                "end the program that uses it (`interlock doctor` names it), or use another port: "
                "`interlock up --port PORT` for once, or set another `listen` in [hub]"
            )
            why = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror or str(cause)
            raise CannotStart(f"the hub cannot listen on {settings.listen}: {why}", hint) from None
        hub_app.use_address(f"{host if ':' not in host else f'[{host}]'}:{self._http.port}")

    async def start(self) -> None:
        """Start every part, then serve clients. Raises CannotStart, after the started parts were stopped."""
        try:
            await asyncio.to_thread(self._earlier_runs.begin)
            await self.hub_app.start()
        except StoreError as cause:
            await self._http.stop(DRAIN_S)
            raise CannotStart(cause.for_operators, cause.hint) from None
        try:
            await self._rooms.start()
            await self._conversations.start()
            # No address answers before the hub is complete. Clients that came meanwhile are served now.
            await self._http.begin()
            await self._control.listen(socket_path(self._home))
            _write_info(self._home, self.hub_app.listen, self._control)
        except (StoreError, OSError) as cause:
            await self._give_up()
            if isinstance(cause, StoreError):
                raise CannotStart(cause.for_operators, cause.hint) from None
            hint = f"check that {self._home / 'run'} is writable and that its disk has free space"
            raise CannotStart(f"{cause.filename or socket_path(self._home)}: {cause.strerror}", hint) from None
        self._loop_watch = LoopWatch.here()
        self._loop_watch.start()
        self._orphans_task = asyncio.create_task(self._earlier_runs.end_servers())
        self._tasks = [
            asyncio.create_task(_watch_files(self.hub_app, self._operations.configuration)),
            asyncio.create_task(_watch_memory(self._http.listener, self.hub_app)),
            self._orphans_task,
        ]

    async def stop(self) -> None:
        """Wait for open calls up to the time to drain, then stop every part."""
        self._loop_watch.stop()
        self._rooms.stop()
        self._operations.console.close()
        for task in self._tasks:
            task.cancel()
        until = time.monotonic() + self.hub_app.readiness.drain_s
        # The addresses stay open meanwhile: new work is told that the hub drains, and `/readyz` that it is not ready.
        while self.hub_app.hub.open_calls and time.monotonic() < until:
            await asyncio.sleep(DRAIN_LOOK_S)
        await self._http.stop(max(DRAIN_LOOK_S, until - time.monotonic()))
        self._control.abandon()
        await self._conversations.close()
        await self._rooms.close()
        await self.hub_app.stop()
        if self._orphans_task.done() and not self._orphans_task.cancelled():
            self._earlier_runs.close()
        for path in (info_path(self._home), socket_path(self._home)):
            path.unlink(missing_ok=True)
        await self._control.close()

    async def _give_up(self) -> None:
        """Stop the parts of a hub whose start failed."""
        self._rooms.stop()
        await self._http.stop(DRAIN_S)
        await self._conversations.close()
        await self._control.close()
        await self.hub_app.stop()

    def _other_routes(self) -> ASGIApp:
        """The HTTP routes besides MCP. `LazyApp` calls this at the first request for one of them."""
        from interlock.web.app import make_app
        from interlock.web.metrics.page import MetricsPage

        metrics = MetricsPage(self.hub_app, self._http.listener, self._rooms)
        return make_app(self.hub_app, operations=self._operations, metrics=metrics)


async def _watch_files(hub_app: HubApp, configuration: ConfigurationOperations) -> None:
    """Read changed files again. A file with a fault changes nothing, and `interlock status` reports it."""
    with contextlib.suppress(Exception):  # The configuration in use was read a moment ago.
        await configuration.look()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if configuration.changed_since:  # False for a change that a command has read already.
            await configuration.read_again()
            for problem in configuration.problems:
                hub_app.logs.add("hub", "config", f"{problem.place}: {problem.message}")


async def _watch_memory(listener: HttpListener, hub_app: HubApp) -> None:
    """Collect garbage between calls, and return free memory to the system while there are none."""
    free_memory = FreeMemory()
    collector = Collector()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        calls, connections = sum(hub_app.counts.calls.values()), len(listener.connections)
        collector.check(calls, hub_app.hub.open_calls)
        unused = not calls and not connections and not hub_app.hub.open_calls
        if free_memory.is_due(connections, quiet=unused or collector.is_quiet):
            await asyncio.to_thread(return_free_memory)


def _write_info(home: Path, listen: str, control: ControlSocket) -> None:
    """Write the file by which commands find this hub."""
    info: dict[str, object] = {"pid": os.getpid(), "version": VERSION, "listen": listen}
    if control.port is None:
        info["socket"] = str(socket_path(home))
    else:
        info |= {"port": control.port, "token": control.token}
    write_atomically(info_path(home), msgspec.json.encode(info))
