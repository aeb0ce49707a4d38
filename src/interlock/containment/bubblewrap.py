"""The backend `bubblewrap`: namespaces of files, network, processes and users. The kernel alone enforces them."""

from __future__ import annotations

import os
import sys
from functools import cache

from interlock.containment import seccomp
from interlock.containment.policy import Plan
from interlock.containment.syscalls import machine

if sys.platform != "linux":
    raise ImportError("containment needs Linux")


def become(plan: Plan, processors: list[int]) -> None:
    """Replace this process by the contained server. Raises OSError."""
    os.sched_setaffinity(0, processors)
    filter_fd = os.memfd_create("filter")
    os.write(filter_fd, filter_below())
    os.lseek(filter_fd, 0, os.SEEK_SET)
    os.set_inheritable(filter_fd, True)
    os.execvpe("bwrap", command_line(plan, filter_fd), plan.env)


@cache
def filter_below() -> bytes:
    """The filter of system calls for every server. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.program(on, [*seccomp.SHARED, *seccomp.OTHER_PROCESSES, *seccomp.LISTENING])


def command_line(plan: Plan, filter_fd: int) -> list[str]:
    """The arguments of `bwrap`. Folders come before the folders inside them."""
    mounts = {path: ("--ro-bind", path) for path in plan.read} | {path: ("--bind", path) for path in plan.write}
    mounts["/tmp"] = ("--bind", f"{plan.home}/tmp")  # noqa: S108 - its own
    binds = [word for path in sorted(mounts, key=len) for word in (*mounts[path], path)]
    namespaces = ("user", "ipc", "pid", "net", "uts", "cgroup-try")
    return [
        "bwrap",
        *(f"--unshare-{name}" for name in namespaces),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "contained", "--seccomp", str(filter_fd)),
        *("--proc", "/proc", "--dev", "/dev", *binds),
        *("--remount-ro", "/", "--chdir", plan.cwd, "--", *plan.argv),
    ]
