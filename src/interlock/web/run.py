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
from typing import Final

import msgspec

from interlock.config.files import try_lock
from interlock.config.home import lock_path
from interlock.config.hub_secret import BadHubSecret, has_secret
from interlock.config.next_secret import has_next
from interlock.config.settings import Config
from interlock.hub.approvals.notifiers import check_webhook
from interlock.hub.audit.tracing.setup import check_otel
from interlock.hub.auth.oauth.token_authentication import check_installed
from interlock.hub.cannot_start import CannotStart
from interlock.hub.foundation import store_of
from interlock.hub.sealing_key import check_stored
from interlock.process.allocator import return_large_blocks
from interlock.process.garbage_collection import hold_collector_back
from interlock.process.memory import share_one_heap
from interlock.process.threads import DEFAULT_THREADS, WorkerThreads
from interlock.store import StoreError
from interlock.web.served_hub import ServedHub

LOCK_WITHIN_S: Final = 5.0


class Ready(msgspec.Struct, frozen=True):
    """The address and process of a hub that listens."""

    listen: str
    pid: int


def run_hub(config: Config, *, home: Path, on_ready: Callable[[Ready], None]) -> int:
    """Run a hub until it is told to stop. Returns the exit code. Raises CannotStart."""
    hold_collector_back()
    # With the default interval, the thread that writes records would hold the loop for 5 ms at a time.
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
    """Raise CannotStart for a configuration with which no hub can start. `interlock doctor` uses it, too."""
    check_installed(config.hub.oauth)
    check_webhook(config.hub.webhook)
    check_otel(config.hub.tracing)
    if config.hub.anonymous and not config.hub.on_loopback:
        raise CannotStart("a hub that listens beyond this machine needs keys", "set `anonymous = false` in [hub]")


def _check_key(config: Config, home: Path) -> None:
    """Finish an interrupted `interlock secrets rekey`. Raises CannotStart for a lost key: it makes no new one."""
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
    """Run a hub on the running loop until it is told to stop. Raises CannotStart."""
    check_start(config)
    asyncio.get_running_loop().set_default_executor(WorkerThreads(DEFAULT_THREADS, "worker"))
    await asyncio.to_thread(_check_key, config, home)
    served = ServedHub(config, home)
    hub_app = served.hub_app
    await served.listen()
    await served.start()
    with _signals(hub_app.readiness.stop):
        on_ready(Ready(hub_app.listen, os.getpid()))
        await hub_app.readiness.stopping.wait()
        hub_app.drain()
    await served.stop()


@contextlib.contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Hold the lock of this user's hub. Raises CannotStart if another hub has it."""
    path = lock_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        deadline = time.monotonic() + LOCK_WITHIN_S
        while not try_lock(file.fileno()):
            # A hub that is stopping keeps the lock for a moment.
            if time.monotonic() > deadline:
                raise CannotStart("another hub of yours is running", "stop it with `interlock down`")
            time.sleep(0.05)
        yield


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # The loop has no signal handlers there.
        before = {number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop)) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return
    # Closing the terminal ends the hub like Ctrl-C, unless it was started with `nohup`.
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
