"""Starts a hub in the background. Processes that start one at the same moment share the first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, NamedTuple

from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure, CommandRefused, NoHub, WrongConfiguration
from interlock.config.files import try_lock

if TYPE_CHECKING:
    from interlock.config.settings import Config

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
MAX_LOG_BYTES = 10 * 1024 * 1024
MAX_FAILURE_BYTES = 64 * 1024
"""Bytes of the log of a hub that did not start."""
if sys.platform == "win32":
    _DETACHED = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _DETACHED = 0


class HubStart(NamedTuple):
    """The folder in which a hub is started, and its arguments of `up`."""

    folder: Path
    arguments: tuple[str, ...] = ()

    @classmethod
    def own(cls, home: Path) -> HubStart:
        """With the user's own configuration: in the home folder, so that no folder of a client configures the hub."""
        return cls(home)

    @classmethod
    def like(cls, link: HubLink, home: Path) -> HubStart:
        """As the hub of this connection was started: with the same file, in the same folder, on the same address."""
        started = link.hello.get("started") or {}
        config, listen = started.get("config"), started.get("listen")
        arguments: tuple[str, ...] = ("--config", config) if config else ()
        if listen:
            host, _, port = listen.rpartition(":")
            arguments += ("--host", host.strip("[]"), "--port", port)
        return cls(Path(started.get("folder") or home), arguments)


def reach_hub(
    home: Path,
    *,
    role: str = "control",
    key: str | None = None,
    view: str | None = None,
    start: HubStart | None = None,
) -> HubLink:
    """Connect to the running hub, or start one: with the user's own configuration, or as `start` says."""
    try:
        return HubLink.open(home, role=role, key=key, view=view)
    except NoHub:
        start = start or HubStart.own(home)
        start_hub(home, folder=start.folder, arguments=start.arguments)
    return HubLink.open(home, role=role, key=key, view=view)


def start_hub(home: Path, *, folder: Path, arguments: tuple[str, ...] = ()) -> None:
    """Start a hub and return when it answers. A failure quotes the hub's log."""
    run = home / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_dir():
        raise CommandFailure(f"the hub cannot start in {folder}, which is gone", "start it with `interlock up`")
    with _exclusive(run / "start.lock"):
        if is_running(home):
            return
        log = run / "hub.log"
        if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with open(log, "ab", opener=_private) as out:
            log_start = out.tell()
            with _delayed_interrupts() as interrupted:
                child = _child(home, folder, arguments, out)
        try:
            if interrupted:
                raise KeyboardInterrupt
            _wait_until_ready(home, child, log, log_start)
            if child.stdin is not None:
                child.stdin.close()  # The hub now runs without its starter.
                child.wait()
        except BaseException:  # Also for an interrupt, because nobody would know of the new hub.
            _stop(child)
            raise


def is_running(home: Path) -> bool:
    try:
        HubLink.open(home, timeout=2).close()
    except NoHub:
        return False
    return True


@contextlib.contextmanager
def no_hub(home: Path) -> Iterator[None]:
    """Hold the lock that a hub of this user takes. Raises CommandRefused while one runs."""
    from interlock.config.home import lock_path

    path = lock_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=_private) as lock:
        deadline = monotonic() + STOP_TIMEOUT_S
        while not try_lock(lock.fileno()):
            # A stopping hub keeps the lock a little longer than it answers.
            if is_running(home) or monotonic() > deadline:
                raise CommandRefused("the hub is running", "stop it first with `interlock down`")
            sleep(0.05)
        yield


def own_configuration(config: Path | None, home: Path) -> Config:
    """The configuration that a hub would start with. Raises WrongConfiguration."""
    from interlock.config.load import load

    loaded = load(config, home=home, folder=Path.cwd())
    if not loaded.usable:
        first = next(problem for problem in loaded.problems if problem.fatal)
        raise WrongConfiguration(f"the configuration cannot be used: {first.message}", first.hint)
    return loaded.config


def key_problem() -> NoHub | None:
    """Why no hub can start, if the reason is its key: it is lost, or another key sealed the store."""
    from interlock.config.home import home_folder
    from interlock.config.hub_secret import BadHubSecret
    from interlock.hub.foundation import store_of
    from interlock.hub.sealing_key import check_stored
    from interlock.store import StoreError

    home = home_folder()
    try:
        config = own_configuration(None, home)
        check_stored(store_of(config, home), config, home)
    except (BadHubSecret, StoreError) as cause:
        why = cause.for_operators if isinstance(cause, StoreError) else cause.message
        return NoHub(f"no hub is running, and none can start: {why}", cause.hint)
    except CommandFailure:
        return None
    return None


def _answers(home: Path) -> bool:
    """Whether the starting hub answers already. A slow hub counts as not ready."""
    try:
        return is_running(home)
    except CommandRefused:
        raise
    except CommandFailure:
        return False


def _wait_until_ready(home: Path, child: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
    deadline = monotonic() + START_TIMEOUT_S
    while monotonic() < deadline:
        if _answers(home):
            return
        if child.poll() is not None:
            with open(log, "rb") as written:
                written.seek(log_start)
                log_text = written.read(MAX_FAILURE_BYTES).decode(errors="replace").strip()
            if child.returncode == WrongConfiguration.exit_code:  # the problems are in the lines above the failure
                raise WrongConfiguration(f"the hub exited at once:\n{log_text}", f"its log is {log}")
            message, hint = _last_failure(log_text)
            raise CommandFailure(message, f"{hint}; its log is {log}" if hint else f"its log is {log}")
        sleep(0.03)
    raise CommandFailure(f"the hub did not answer within {START_TIMEOUT_S:g} s", f"its log is {log}")


def _last_failure(log_text: str) -> tuple[str, str]:
    """The message and the hint of the failure at the end of a hub's log, or all of the log if it has none."""
    _, found, failure = f"\n{log_text}".rpartition("\ninterlock: ")
    if not found:
        return f"the hub exited at once:\n{log_text}", ""
    message, _, hint = failure.partition("\n  → ")
    return message, hint


def _child(home: Path, folder: Path, arguments: tuple[str, ...], out: IO[bytes]) -> subprocess.Popen[bytes]:
    # -P: Python must not import code from the folder that the hub runs in.
    python = [sys.executable, "-P", "-m"]
    command = [*python, "interlock.cli", "up", *arguments]
    if sys.platform != "win32":
        command = [*python, "interlock.cli.control.detached", *command]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL if sys.platform == "win32" else subprocess.PIPE,
        stdout=out,
        stderr=out,
        start_new_session=True,  # Ctrl-C in this terminal must not stop the hub.
        creationflags=_DETACHED,
        env={**_environment(), "INTERLOCK_HOME": str(home)},
    )


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[list[int]]:
    """Delay interrupts to the end of the block, so that none leaves a started process behind.

    Only the main thread receives interrupts.
    """
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield received
        return
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Lock the file; waits a little longer than a start may take."""
    with open(path, "ab", opener=_private) as lock:
        deadline = monotonic() + START_TIMEOUT_S + 5
        while not try_lock(lock.fileno()):
            if monotonic() > deadline:
                raise CommandFailure(
                    "another process is starting a hub and does not finish", f"check who has {path} open"
                )
            sleep(0.03)
        yield


def _environment() -> dict[str, str]:
    """The environment without the key of the client that starts the hub, and without the mark of a server process
    around it: the hub belongs to the user and must not end with its starter."""
    removed = ("INTERLOCK_KEY", "INTERLOCK_MARK")
    return {name: value for name, value in os.environ.items() if name not in removed}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
