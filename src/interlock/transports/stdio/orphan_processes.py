"""Ends processes that a server started in other sessions and left behind. A mark in their environment identifies them.

A process group ends with one signal, but a process that calls `setsid` has left it. Children of a server inherit its
environment, so each server gets a mark of its own there. The hub ends every process with the mark of a server that has
gone. A mark begins with the id of the hub's run, by which the next run finds the servers of a hub that was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

MARK: Final = "INTERLOCK_MARK"
PATIENCE_S: Final = 2.0
"""Between SIGTERM and SIGKILL."""
ROUNDS: Final = 5
"""How often to look again: something may have been started while we looked."""

RUN_LENGTH: Final = 16
"""How many characters of a mark name the run."""

RESTING: Final = 4
"""The pause after a look through all processes, as a multiple of its duration."""

HANDLES: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""Whether the system has process handles, so that a process id cannot become another's meanwhile."""

if sys.platform == "win32":
    _KILL = signal.SIGTERM  # nothing is marked there, and nothing is looked for
else:
    _KILL = signal.SIGKILL
_MARK_BYTES: Final = MARK.encode()
_MARKED = re.compile(rb"(?:^|[\0 ])" + _MARK_BYTES + rb"=([0-9a-f]{32})(?:[\0 ]|$)")


class ProcessMarks:
    """The marks of this process. It has a run once it is a hub with a home."""

    def __init__(self) -> None:
        self._run = ""

    def begin_run(self) -> str:
        """The id of a new run, with which all marks begin from now on."""
        self._run = secrets.token_hex(RUN_LENGTH // 2)
        return self._run

    def new(self) -> dict[str, str]:
        """The environment variables of a new server."""
        return {MARK: self._run + secrets.token_hex(16)[len(self._run) :]}


MARKS: Final = ProcessMarks()


class OrphanProcesses:
    """Ends the processes that ended servers left behind. One look in a thread serves all marks that wait."""

    def __init__(self, carriers: Callable[[], Iterator[tuple[int, bytes]]]) -> None:
        self._carriers = carriers
        self._marks: set[bytes] = set()
        self._adding = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "leftovers")
        self._not_before = 0.0

    def end(self, mark: str) -> Future[None]:
        """End the processes with a mark. The future is done when none is left."""
        mine = mark.encode()
        with self._adding:
            self._marks.add(mine)
        return self._thread.submit(self._look_for, mine)

    def _look_for(self, mine: bytes) -> None:
        if mine not in self._marks:
            return  # an earlier look included it
        time.sleep(max(0.0, self._not_before - time.monotonic()))
        with self._adding:
            marks, self._marks = self._marks, set()
        for number in (signal.SIGTERM, *[_KILL] * ROUNDS):
            began = time.monotonic()
            found = [pid for pid, mark in self._carriers() if mark in marks]
            ended = time.monotonic()
            self._not_before = ended + RESTING * (ended - began)
            if not found:
                return
            end_processes(found, number)


def end_run(run: str, hub: int) -> set[int]:
    """End the processes of a hub's run that is over. Returns their process ids.

    `hub` is the process id that the hub had. A process that still is its child shows that the hub lives: then none is
    ended. Neither is this process, nor a process that led to its start.
    """
    ended: set[int] = set()
    if len(run) != RUN_LENGTH:
        return ended
    spared = _line_of(os.getpid())
    for number in (signal.SIGTERM, *[_KILL] * ROUNDS):
        found = [pid for pid, mark in CARRIERS() if mark.startswith(run.encode()) and pid not in spared]
        if not found or any(_parent_of(pid) == hub for pid in found):
            break
        end_processes(found, number)
        ended.update(found)
    return ended


def _line_of(pid: int) -> set[int]:
    """A process, its parent, and so on."""
    line: set[int] = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        pid = _parent_of(pid)
    return line


def _parent_of(pid: int) -> int:
    """The process id of its parent; 0 if the process is gone or has none."""
    try:
        if sys.platform == "linux":
            with open(f"/proc/{pid}/stat", "rb") as stat:
                # The name of the program is in parentheses, and may contain any character.
                return int(stat.read().rpartition(b")")[2].split()[1])
        command = ("ps", "-o", "ppid=", "-p", str(pid))
        return int(subprocess.run(command, capture_output=True, timeout=10, check=False).stdout)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0


def end_processes(pids: list[int], number: int) -> None:
    """Signal processes, and wait for their end for at most `PATIENCE_S`."""
    watched = []
    for pid in pids:
        with contextlib.suppress(OSError):
            watched.append((pid, _handle(pid)))
    try:
        for pid, handle in watched:
            with contextlib.suppress(OSError):
                if sys.platform == "linux" and handle is not None:
                    signal.pidfd_send_signal(handle, number)
                else:
                    os.kill(pid, number)
        until = time.monotonic() + PATIENCE_S
        for pid, handle in watched:
            while (left := until - time.monotonic()) > 0 and not _gone(pid, handle, left):
                pass
    finally:
        for _, handle in watched:
            if handle is not None:
                os.close(handle)


def _handle(pid: int) -> int | None:
    if sys.platform == "linux" and HANDLES:
        return os.pidfd_open(pid)
    return None


def _gone(pid: int, handle: int | None, seconds: float) -> bool:
    if sys.platform != "win32" and handle is not None:
        waiting = select.poll()  # `select` itself knows no numbers over 1,023
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    try:
        os.kill(pid, 0)
    except OSError:
        return True
    time.sleep(min(0.02, seconds))
    return False


def in_proc() -> Iterator[tuple[int, bytes]]:
    """Processes of this user with their marks, as Linux tells them."""
    user = os.stat("/proc/self").st_uid
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != user:
                continue
            with open(f"/proc/{entry.name}/environ", "rb", buffering=0) as environ:
                mark = _mark_in(environ.read())
        except OSError:
            continue  # gone, or not ours to look at
        if mark is not None:
            yield int(entry.name), mark


def in_ps(command: tuple[str, ...] = ("ps", "-axEww", "-o", "pid=,command=")) -> Iterator[tuple[int, bytes]]:
    """The same as `ps` tells it, for systems without /proc."""
    try:
        listed = subprocess.run(command, capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in listed.splitlines():
        pid, _, rest = line.strip().partition(b" ")
        mark = _mark_in(rest)
        if mark is not None and pid.isdigit():
            yield int(pid), mark


def _mark_in(environment: bytes) -> bytes | None:
    # Few processes carry a mark. To look for its name takes a fifth of the time of the whole pattern.
    if _MARK_BYTES not in environment:
        return None
    found = _MARKED.search(environment)
    return None if found is None else found[1]


CARRIERS: Final = in_proc if sys.platform == "linux" else in_ps
LEFTOVERS: Final = OrphanProcesses(CARRIERS)
