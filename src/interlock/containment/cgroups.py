"""Control groups: bounds for the memory and the processes of one server together, if this process may create groups.

Version 2 of the kernel's interface is used if its controllers are available, otherwise version 1. If a folder cannot be
written, there are no control groups; a limit is never skipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

MOUNT: Final = Path("/sys/fs/cgroup")
CONTROLLERS: Final = ("memory", "pids")
CLEARING_S: Final = 5.0
"""How long the hub tries to end the processes of a dead launcher."""
_PREFIX: Final = "interlock-"
THREADS_PER_PROCESS: Final = 16
"""The kernel counts threads as processes. Node starts eleven."""
if sys.platform == "win32":  # Windows has no control groups.
    _KILL: Final = signal.SIGTERM
else:
    _KILL: Final = signal.SIGKILL


def parents(mount: Path = MOUNT, own: Path = Path("/proc/self/cgroup")) -> tuple[str, ...]:
    """The folders in which groups for servers can be created, which together bound memory and processes.

    Empty if this process may not create any.
    """
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return ()
    unified = next((path for number, _, path in groups if number == "0"), None)
    if unified is not None and (mount / "cgroup.controllers").exists():
        place = mount / unified.lstrip("/")
        # A group with processes cannot delegate controllers, so a server's group is a sibling of the hub's own.
        for parent in (place.parent, place):
            if parent.is_relative_to(mount) and _hands_out(parent) and os.access(parent, os.W_OK):
                return (str(parent),)
        return ()
    found = []
    for controller in CONTROLLERS:
        path = next((path for _, names, path in groups if controller in names.split(",")), None)
        if path is None:
            return ()
        group = mount / controller / path.lstrip("/")
        if not os.access(group, os.W_OK) or not (group / "cgroup.procs").exists():
            return ()
        found.append(str(group))
    return tuple(found)


def _hands_out(parent: Path) -> bool:
    try:
        return set(CONTROLLERS) <= set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False


def make(parents: tuple[str, ...], name: str) -> list[Path]:
    """Make the groups of one server. Raises OSError."""
    made = [Path(parent) / name for parent in parents]
    for group in made:
        group.mkdir()
    return made


def bound(groups: list[Path], memory_bytes: int, processes: int) -> None:
    """Set the bounds of one server. Raises OSError if one cannot be set."""
    tasks = str(processes * THREADS_PER_PROCESS)
    for group in groups:
        if (group / "memory.max").exists():  # Version 2.
            (group / "memory.max").write_text(str(memory_bytes))
            _write_if_there(group / "memory.swap.max", "0")
            (group / "pids.max").write_text(tasks)
        elif (group / "memory.limit_in_bytes").exists():
            (group / "memory.limit_in_bytes").write_text(str(memory_bytes))
            _write_if_there(group / "memory.memsw.limit_in_bytes", str(memory_bytes))
        else:
            (group / "pids.max").write_text(tasks)


def join(groups: list[Path]) -> None:
    """Move this process into the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def members(groups: list[Path]) -> set[int]:
    """The processes in the groups."""
    found: set[int] = set()
    for group in groups:
        try:
            found |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        except OSError:
            continue
    return found


def remove(groups: list[Path]) -> bool:
    """Remove empty groups. Returns whether all are removed."""
    gone = True
    for group in groups:
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone


def names_of(launcher: int) -> str:
    """The prefix of the names of a launcher's groups."""
    return f"{_PREFIX}{launcher}-"


def end_all(launcher: int) -> None:
    """End all processes that a dead launcher started, and remove its groups."""
    groups = [group for parent in parents() for group in Path(parent).glob(f"{names_of(launcher)}*")]
    until = time.monotonic() + CLEARING_S
    while groups and time.monotonic() < until:
        for pid in members(groups):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, _KILL)
        groups = [group for group in groups if not remove([group])]
        if groups:
            time.sleep(0.01)


def remove_stale() -> None:
    """Remove empty groups of launchers that were killed together with their hub."""
    for parent in parents():
        for group in Path(parent).glob(f"{_PREFIX}*-*"):
            launcher = group.name.removeprefix(_PREFIX).partition("-")[0]
            if launcher.isdigit() and not os.path.exists(f"/proc/{launcher}"):
                remove([group])


def _write_if_there(file: Path, text: str) -> None:
    """Write a file if it exists. The kernel has the file for swap only if it counts swap."""
    if file.exists():
        file.write_text(text)
