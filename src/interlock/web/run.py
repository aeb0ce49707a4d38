"""Runs a hub in this process until it is told to stop: by a signal, or through the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.config.files import try_lock, write_atomically
from interlock.config.home import info_path, lock_path, socket_path
from interlock.config.hub_secret import BadHubSecret, has_secret
from interlock.config.next_secret import has_next
from interlock.config.settings import Config
from interlock.host import Host
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.hub.approvals.notifiers import check_webhook
from interlock.hub.audit.tracing.setup import check_otel
from interlock.hub.auth.oauth.token_authentication import check_installed
from interlock.hub.authentication import is_mcp_path
from interlock.hub.cannot_start import CannotStart
from interlock.hub.foundation import store_of
from interlock.hub.sealing_key import check_stored
from interlock.hub.upstreams.commands import DRAIN_S
from interlock.hub.upstreams.earlier_runs import EarlierRuns
from interlock.process.allocator import return_large_blocks
from interlock.process.descriptors import for_clients, raise_limit
from interlock.process.garbage_collection import Collector, hold_collector_back
from interlock.process.loop_watch import LoopWatch
from interlock.process.memory import FreeMemory, return_free_memory, share_one_heap
from interlock.process.threads import DEFAULT_THREADS, WorkerThreads
from interlock.rooms.gateway import Gateway
from interlock.rooms.upgrade import RoomUpgrader
from interlock.store import StoreError
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.http.server.serve import start as start_http
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.unread_bytes import UnreadBytes
from interlock.version import VERSION
from interlock.web.control import ControlSocket
from interlock.web.lazy_app import LazyApp

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOCK_WITHIN_S: Final = 5.0
DRAIN_LOOK_S: Final = 0.05
"""How often a hub that drains looks whether its last call has ended."""
LOOK_EVERY_S: Final = 1.0
"""How often the configuration's files are looked at for changes."""


class Ready(msgspec.Struct, frozen=True):
    """The hub listens."""

    listen: str
    pid: int


def run_hub(config: Config, *, home: Path, on_ready: Callable[[Ready], None]) -> int:
    """Serve until told to stop. Gives the exit code. Raises CannotStart."""
    hold_collector_back()
    # The thread that writes records would otherwise keep the loop waiting for five milliseconds at a time.
    sys.setswitchinterval(0.0005)
    share_one_heap()
    return_large_blocks()
    with _only_one(home):
        try:
            _run(serve(config, home, on_ready))
        except KeyboardInterrupt:
            return 130
    return 0


def check_start(config: Config) -> None:
    """Raises CannotStart for a configuration with which no hub can start. `interlock doctor` asks the same."""
    check_installed(config.hub.oauth)
    check_webhook(config.hub.webhook)
    check_otel(config.hub.tracing)
    if config.hub.anonymous and not config.hub.on_loopback:
        raise CannotStart("a hub that listens beyond this machine needs keys", "set `anonymous = false` in [hub]")


def _check_key(config: Config, home: Path) -> None:
    """Finish an interrupted `interlock secrets rekey`. Raises CannotStart for a lost key, and makes no new one then."""
    try:
        if has_next(home):
            from interlock.hub.admin.rekeying import finish_rekeying

            finish_rekeying(config, home)
        if config.hub.sealing_key is None and not has_secret(home):
            check_stored(store_of(config, home), config, home)
    except StoreError as cause:
        raise CannotStart(cause.for_operators, cause.hint) from None
    except BadHubSecret as cause:
        raise CannotStart(cause.message, cause.hint) from None


async def serve(config: Config, home: Path, on_ready: Callable[[Ready], None]) -> None:
    """The whole life of a hub on the running loop."""
    check_start(config)
    asyncio.get_running_loop().set_default_executor(WorkerThreads(DEFAULT_THREADS, "worker"))
    await asyncio.to_thread(_check_key, config, home)
    hub_app = HubApp(config, home)
    readiness = hub_app.readiness
    rooms = Gateway(hub_app)
    conversations = Host(hub_app, rooms=rooms.topics)
    operations = Operations(hub_app, readiness.stop, rooms, conversations)
    limits = config.hub.limits
    bounds = HttpBounds(sse_streams=limits.sessions, connections=for_clients(raise_limit()))
    bounds = bounds.for_messages(limits.message_bytes)
    unread = UnreadBytes(bounds.unread_bytes, bounds.unread_bytes_per_owner)
    control = ControlSocket(hub_app, operations, unread, RequestBytes(bounds.held_bytes))
    endpoint = McpEndpoint(hub_app.service, hub_app.limits, bounds)
    host, port = config.hub.address

    def rest_of_http() -> ASGIApp:
        from interlock.web.app import make_app
        from interlock.web.metrics.page import MetricsPage

        return make_app(hub_app, operations=operations, metrics=MetricsPage(hub_app, http.listener, rooms))

    try:
        http = await start_http(
            endpoint,
            LazyApp("interlock.web.app", rest_of_http),
            host=host,
            port=port,
            hosts=config.hub.allowed_hosts,
            origins=config.hub.allowed_origins,
            local_names=(operations.console.address.name,),
            limits=hub_app.limits,
            bounds=bounds,
            is_mcp=is_mcp_path,
            upgrader=RoomUpgrader(hub_app, rooms),
            begin=False,
        )
    except OSError as cause:
        hint = "end the program that uses it (`interlock doctor` looks who does), or set another `listen` in [hub]"
        why = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror or str(cause)
        raise CannotStart(f"{config.hub.listen} cannot be listened on: {why}", hint) from None
    hub_app.listen = f"{host if ':' not in host else f'[{host}]'}:{http.port}"
    earlier_runs = EarlierRuns(home, hub_app.logs)
    try:
        await asyncio.to_thread(earlier_runs.begin)
        await hub_app.start()
    except StoreError as cause:
        await http.stop(DRAIN_S)
        raise CannotStart(cause.for_operators, cause.hint) from None
    try:
        await rooms.start()
        await conversations.start()
        # No address answers before the hub is complete. Clients that came meanwhile are served now.
        await http.begin()
        await control.listen(socket_path(home))
        _write_info(home, hub_app.listen, control)
    except (StoreError, OSError) as cause:
        rooms.stop()
        await http.stop(DRAIN_S)
        await conversations.close()
        await control.close()
        await hub_app.stop()
        if isinstance(cause, StoreError):
            raise CannotStart(cause.for_operators, cause.hint) from None
        hint = f"see that there is room in {home / 'run'}, and that it can be written"
        raise CannotStart(f"{cause.filename or socket_path(home)}: {cause.strerror}", hint) from None
    watch = LoopWatch.here()
    watch.start()
    watcher = asyncio.create_task(_watch_files(hub_app, operations.configuration))
    memory_task = asyncio.create_task(_watch_memory(http.listener, hub_app))
    orphans_task = asyncio.create_task(earlier_runs.end_servers())
    with _signals(readiness.stop):
        on_ready(Ready(hub_app.listen, os.getpid()))
        await readiness.stopping.wait()
        hub_app.drain()
    watch.stop()
    rooms.stop()
    operations.console.close()
    watcher.cancel()
    memory_task.cancel()
    orphans_task.cancel()
    until = time.monotonic() + readiness.drain_s
    # The addresses stay open meanwhile: new work is told that the hub drains, and `/readyz` that it is not ready.
    while hub_app.hub.open_calls and time.monotonic() < until:
        await asyncio.sleep(DRAIN_LOOK_S)
    await http.stop(max(DRAIN_LOOK_S, until - time.monotonic()))
    control.abandon()
    await conversations.close()
    await rooms.close()
    await hub_app.stop()
    if orphans_task.done() and not orphans_task.cancelled():
        earlier_runs.close()
    for path in (info_path(home), socket_path(home)):
        path.unlink(missing_ok=True)
    await control.close()


async def _watch_files(hub_app: HubApp, configuration: ConfigurationOperations) -> None:
    """A changed file is read again; a broken one changes nothing, and says so in `status`."""
    with contextlib.suppress(Exception):  # the configuration in use was read a moment ago
        await configuration.look()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if configuration.changed_since:  # A change that a command had read is not read once more.
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
    info: dict[str, object] = {"pid": os.getpid(), "version": VERSION, "listen": listen}
    if control.port is None:
        info["socket"] = str(socket_path(home))
    else:
        info |= {"port": control.port, "token": control.token}
    write_atomically(info_path(home), msgspec.json.encode(info))


@contextlib.contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Hold the lock of this user's hub, or say that another does."""
    path = lock_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        deadline = time.monotonic() + LOCK_WITHIN_S
        while not try_lock(file.fileno()):
            # One that is just stopping still holds it for a moment.
            if time.monotonic() > deadline:
                raise CannotStart("another hub of yours is running", "stop it with `interlock down`")
            time.sleep(0.05)
        yield


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # no handlers on the loop there
        before = {number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop)) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return
    # A terminal that is closed ends its hub like Ctrl-C, unless it was started so as to outlive it (`nohup`).
    stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = (signal.SIGTERM, signal.SIGINT, *(() if stays else (signal.SIGHUP,)))
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


_STOPPING: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))


def _run(main: Coroutine[None, None, None]) -> None:
    if sys.platform == "win32":
        asyncio.run(main)
        return
    import uvloop

    uvloop.run(main)
