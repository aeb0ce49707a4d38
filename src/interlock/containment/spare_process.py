"""A forked process that waits to become a server, in its own session and control groups.

Joining a control group takes the kernel up to 20 ms, so a spare does it before a server is requested. It also does
the other preparations that need no plan, if the kind of the server is known.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from interlock.containment import bubblewrap, cgroups, sandlock_backend
from interlock.containment.launcher_child import close_all
from interlock.containment.policy import StartPlan

if sys.platform != "linux":
    raise ImportError("containment needs Linux")

PACKET: Final = 1 << 20
"""Bytes of the largest request."""
FAILED: Final = 126
"""The exit code of a server that could not be contained."""

_PLAN: Final = msgspec.json.Decoder(StartPlan)
_SET_PARENT_DEATH_SIGNAL: Final = 1
SET_SUBREAPER: Final = 36
"""The option of `prctl` by which a process adopts the orphans below it."""


class ServerKind(NamedTuple):
    """The properties of a server that a spare process must know in advance."""

    backend: str
    network: bool

    @classmethod
    def of(cls, plan: StartPlan) -> ServerKind:
        return cls(plan.backend, bool(plan.hosts))


class GroupBounds(NamedTuple):
    """The bounds of a server's control groups."""

    memory_bytes: int
    processes: int


class SpareProcess:
    """A process that waits to become a server."""

    def __init__(self, name: str, kind: ServerKind | None, expected: GroupBounds | None) -> None:
        parents = cgroups.parents()
        self.groups = cgroups.make(parents, name)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _child(theirs, self.groups, launcher, kind)
        theirs.close()
        self._socket = ours
        self.pins = sandlock_backend.pin(self.pid) if self.groups else []
        """Descriptors that the launcher holds while the process lives."""
        self._bounds: GroupBounds | None = None
        if expected is not None:
            self.bound(expected)

    def bound(self, bounds: GroupBounds) -> None:
        """Set the bounds of its control groups, unless they are set already. Raises OSError."""
        if bounds != self._bounds:
            cgroups.bound(self.groups, *bounds)
            self._bounds = bounds

    def hand_over(self, plan: bytes, pipes: list[int]) -> None:
        """Send the plan and the pipes, so that the process becomes the server. Raises OSError."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * PACKET)
        with self._socket:
            socket.send_fds(self._socket, [plan], pipes)

    def discard(self) -> None:
        self._socket.close()
        close_all(self.pins)


def _child(launcher: socket.socket, groups: list[Path], parent: int, kind: ServerKind | None) -> None:
    """Wait for a plan, then become the contained server or its supervisor. Never returns."""
    code = FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        library = ctypes.CDLL(None)
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        library.prctl(SET_SUBREAPER, 1, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(FAILED)
        cgroups.join(groups)
        kept = launcher.fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        if kind is not None and kind.backend == "sandlock":
            sandlock_backend.warm_up(kind.network, bounded=bool(groups))
        packet, pipes, _, _ = socket.recv_fds(launcher, PACKET, 3)
        if not packet:
            os._exit(0)
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
        os.closerange(3, max(kept, *pipes) + 1)
        code = _become(_PLAN.decode(packet), bounded=bool(groups))
    except BaseException as cause:
        # This process ends here, so report every error. The hub logs the text.
        with contextlib.suppress(OSError):
            os.write(2, f"interlock: the server cannot be contained: {cause}\n".encode())
    finally:
        os._exit(code)


def _become(plan: StartPlan, *, bounded: bool) -> int:
    _bound(plan)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the server would inherit that.
        signal.signal(ignored, signal.SIG_DFL)
    os.umask(0o077)
    os.chdir(plan.cwd)
    if plan.backend == "bubblewrap":
        bubblewrap.become(plan, processors(plan))
    return sandlock_backend.become(plan, processors(plan), bounded=bounded)


def processors(plan: StartPlan) -> list[int]:
    """The processors that a server may use, chosen at random."""
    available = sorted(os.sched_getaffinity(0))
    return random.sample(available, min(plan.cpus, len(available)))


def _bound(plan: StartPlan) -> None:
    """Set the kernel's resource limits of this process, for every backend."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (plan.memory_bytes, plan.memory_bytes))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = plan.open_files if hard == resource.RLIM_INFINITY else min(plan.open_files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
