"""Starts a hub beside this process, once: whoever comes second waits for the first and uses its hub."""

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
from typing import IO

from interlock.config.files import try_lock

from .failures import Failure, NoHub, Refused, WrongConfiguration
from .hub_link import HubLink

START_WITHIN_S = 30.0
END_WITHIN_S = 10.0
MOST_LOG_BYTES = 10 * 1024 * 1024
if sys.platform == "win32":
    _DETACHED = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _DETACHED = 0


def reach_hub(home: Path, *, role: str = "control", key: str | None = None, view: str | None = None) -> HubLink:
    """A link to the running hub, or to one started now with the user's own configuration alone.

    It is started in its own home: the folder that a client happens to run in configures nothing.
    """
    try:
        return HubLink.open(home, role=role, key=key, view=view)
    except NoHub:
        start_hub(home, folder=home)
    return HubLink.open(home, role=role, key=key, view=view)


def start_hub(home: Path, *, folder: Path, arguments: tuple[str, ...] = ()) -> None:
    """Returns when a hub answers. If it does not come up, says why from its log."""
    run = home / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _one_at_a_time(run / "start.lock"):
        if is_running(home):
            return
        log = run / "hub.log"
        if log.exists() and log.stat().st_size > MOST_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with open(log, "ab", opener=_private) as out:
            begin = out.tell()
            with _interrupted_later() as interrupted:
                child = _child(home, folder, arguments, out)
        try:
            if interrupted:
                raise KeyboardInterrupt
            _wait_until_ready(home, child, log, begin)
        except BaseException:  # also where whoever waits for it is interrupted: a hub that nobody was told of is none
            _end(child)
            raise


def is_running(home: Path) -> bool:
    try:
        HubLink.open(home, timeout=2).close()
    except NoHub:
        return False
    return True


def _answers(home: Path) -> bool:
    """Whether the hub that is coming up already answers; one that is slow to is waited for."""
    try:
        return is_running(home)
    except Refused:
        raise
    except Failure:
        return False


def _wait_until_ready(home: Path, child: subprocess.Popen[bytes], log: Path, begin: int) -> None:
    deadline = monotonic() + START_WITHIN_S
    while monotonic() < deadline:
        if _answers(home):
            return
        if child.poll() is not None:
            with open(log, "rb") as written:
                written.seek(begin)
                said = written.read(4096).decode(errors="replace").strip()
            kind = WrongConfiguration if child.returncode == WrongConfiguration.exit_code else Failure
            raise kind(f"the hub ended at once:\n{said}", f"its log is {log}")
        sleep(0.03)
    raise Failure(f"the hub did not answer within {START_WITHIN_S:g} s", f"its log is {log}")


def _child(home: Path, folder: Path, arguments: tuple[str, ...], out: IO[bytes]) -> subprocess.Popen[bytes]:
    # -P: the folder it runs in must not become a place to import code from.
    command = [sys.executable, "-P", "-m", "interlock.cli", "up", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        start_new_session=True,  # Ctrl-C in this terminal is not meant for it
        creationflags=_DETACHED,
        env={**_its_own(), "INTERLOCK_HOME": str(home)},
    )


@contextlib.contextmanager
def _interrupted_later() -> Iterator[list[int]]:
    """Keeps interrupts for afterwards: one in the middle of starting a process would leave it without anyone who knows
    of it. Only the main thread is ever interrupted."""
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Holds the lock file; waits a little longer than a start may take."""
    with open(path, "ab", opener=_private) as lock:
        deadline = monotonic() + START_WITHIN_S + 5
        while not try_lock(lock.fileno()):
            if monotonic() > deadline:
                raise Failure("another process is starting a hub and does not finish", f"see who holds {path}")
            sleep(0.03)
        yield


def _its_own() -> dict[str, str]:
    """The environment, without the key of the client that happened to come first, and without the mark of the server
    that this may run in: a hub is the user's, and does not end with whoever started it."""
    foreign = ("INTERLOCK_KEY", "INTERLOCK_MARK")
    return {name: value for name, value in os.environ.items() if name not in foreign}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
