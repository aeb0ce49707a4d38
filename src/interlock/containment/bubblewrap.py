"""The backend `bubblewrap`: namespaces of files, network, processes and users. The kernel alone enforces them."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache

from interlock.containment import seccomp
from interlock.containment.policy import StartPlan
from interlock.containment.syscalls import machine

if sys.platform != "linux":
    raise ImportError("containment needs Linux")


def become(plan: StartPlan, processors: list[int]) -> None:
    """Replace this process by the contained server. Raises OSError.

    `bwrap` itself is not contained. So the server's PATH and variables must not affect it, and its options, which
    contain those variables, are passed by a descriptor instead of the command line.
    """
    os.sched_setaffinity(0, processors)
    options = "\0".join(options_of(plan, _in_memory(filter_below())))
    os.execve(program(), ["bwrap", "--args", str(_in_memory(options.encode())), "--", *plan.argv], {})


def _in_memory(text: bytes) -> int:
    """A descriptor for `bwrap` to read from."""
    number = os.memfd_create("bwrap", 0)
    os.set_inheritable(number, True)
    with open(number, "wb", closefd=False) as file:
        file.write(text)
    os.lseek(number, 0, os.SEEK_SET)
    return number


@cache
def program() -> str:
    """The path of `bwrap`, by the launcher's own PATH. Raises FileNotFoundError."""
    found = shutil.which("bwrap")
    if found is None:
        raise FileNotFoundError("bwrap")
    return found


def servers_below(bwrap: int) -> set[int]:
    """The processes that get a signal for the server: the children of the first process in the namespace.

    `bwrap` itself must not get it: it would die at once, and the server with it.
    """
    return {server for first in _children(bwrap) for server in _children(first)}


def _children(pid: int) -> set[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:
            return {int(child) for child in listed.read().split()}
    except OSError:
        return set()


@cache
def filter_below() -> bytes:
    """The system call filter for every server. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.program(on, [*seccomp.SHARED, *seccomp.OTHER_PROCESSES, *seccomp.LISTENING])


def options_of(plan: StartPlan, filter_fd: int) -> list[str]:
    """The options of `bwrap`. A folder comes before the folders inside it."""
    mounts = {path: ("--ro-bind", path) for path in plan.read} | {path: ("--bind", path) for path in plan.write}
    mounts["/tmp"] = ("--bind", f"{plan.home}/tmp")  # noqa: S108 - its own
    binds = [word for path in sorted(mounts, key=len) for word in (*mounts[path], path)]
    namespaces = ("user", "ipc", "pid", "net", "uts", "cgroup-try")
    variables = [word for name, value in plan.env.items() for word in ("--setenv", name, value)]
    return [
        *(f"--unshare-{name}" for name in namespaces),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "contained", "--seccomp", str(filter_fd)),
        *("--proc", "/proc", "--dev", "/dev", *binds),
        *("--remount-ro", "/", "--chdir", plan.cwd, "--clearenv", *variables),
    ]
