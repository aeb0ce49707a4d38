"""The launcher: a process that starts contained servers for the hub and ends everything that they leave behind.

It reads one request per packet from its control socket, with the server's three pipes attached, and reports when a
server has started or ended. It adopts orphaned processes, so that no contained process outlives its server.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from interlock.containment import bubblewrap, cgroups, sandlock_backend
from interlock.containment.policy import LauncherRequest, StartPlan

if sys.platform != "linux":
    raise ImportError("containment needs Linux")

PACKET: Final = 1 << 20
"""Bytes of the largest request."""
PATIENCE_S: Final = 2.0
"""The time between SIGTERM and SIGKILL for a server whose `time_s` is over."""
CLEARING_S: Final = 1.0
"""How long the end of a server is delayed until the processes that it left behind have ended."""
QUIET_S: Final = 0.1
"""The time after a start in which no spare is prepared: joining a control group delays the creation of processes."""
FAILED: Final = 126
"""The exit code of a server that could not be contained."""

_REQUEST: Final = msgspec.json.Decoder(LauncherRequest)
_PLAN: Final = msgspec.json.Decoder(StartPlan)
_SET_PARENT_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36


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
    """A forked process that waits to become a server, in its own session and control groups.

    Joining a control group takes the kernel up to 20 ms, so a spare does it before a server is requested. It also does
    the other preparations that need no plan, if the kind of the server is known.
    """

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
        _close(self.pins)


class LauncherChild:
    """A server that was started and has not ended."""

    def __init__(self, pid: int, backend: str, groups: list[Path], ends_at: float, pins: list[int]) -> None:
        self._pid = pid
        self._backend = backend
        self.groups = groups
        self._pins = pins
        self.ends_at = ends_at
        self.killed = False

    def forget(self) -> None:
        """Forget a server that has ended."""
        sandlock_backend.forget(self._pid)
        _close(self._pins)

    def signal(self, number: int) -> None:
        """Send a signal to the server and its group."""
        reached = bubblewrap.servers_below(self._pid) if self._backend == "bubblewrap" else set()
        if number == signal.SIGKILL or not reached:
            _kill(self._pid, number)
        for server in reached:
            _kill(server, number, group=False)


class Launcher:
    """Starts, watches and ends contained servers."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._hub = control.fileno()
        self._running: dict[int, LauncherChild] = {}
        self._leftover_groups: list[Path] = []
        self._number = 0
        self._woken, waking = os.pipe()
        for end in (self._woken, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)
        self._spares: dict[ServerKind, SpareProcess] = {}
        """One for each kind of server that was asked for."""
        self._expected: dict[ServerKind, GroupBounds] = {}
        """The bounds of the last server of each kind: those of the next one, most likely."""
        self._wanted: set[ServerKind] = {ServerKind("sandlock" if "sandlock" in sys.modules else "bubblewrap", False)}
        self._spare_at = 0.0
        """When the next spare process is made."""

    def run(self) -> None:
        """Serve until the hub closes the socket, then end everything."""
        try:
            while True:
                ready, _, _ = select.select([self._hub, self._woken], [], [], self._until_next_end())
                if self._woken in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    self._reap()
                if self._hub in ready and not self._receive():
                    return
                self._end_overdue()
                self._make_spare()
        finally:
            for spare in self._spares.values():
                spare.discard()
                self._leftover_groups += spare.groups
            for pid, running in self._running.items():
                _kill(pid, signal.SIGKILL)
                self._leftover_groups += running.groups
            self._clear(set())

    def _receive(self) -> bool:
        packet, pipes, _, _ = socket.recv_fds(self._control, PACKET, 3)
        if not packet:
            return False
        request = _REQUEST.decode(packet)
        if request.signal:
            if request.pid in self._running:
                self._running[request.pid].signal(request.signal)
            return True
        answer: dict[str, Any]
        try:
            answer = {"id": request.id, "pid": self._start(bytes(request.plan), pipes)}
        except OSError as cause:
            answer = {"id": request.id, "error": str(cause)}
        finally:
            for pipe in pipes:
                os.close(pipe)
        self._send(answer)
        return True

    def _start(self, packet: bytes, pipes: list[int]) -> int:
        plan = _PLAN.decode(packet)
        kind = ServerKind.of(plan)
        spare = self._spares.pop(kind, None) or self._new_spare(None)
        self._wanted.add(kind)
        self._spare_at = time.monotonic() + QUIET_S
        self._expected[kind] = GroupBounds(plan.memory_bytes, plan.processes)
        spare.bound(self._expected[kind])
        alone = plan.backend == "sandlock" and not sandlock_backend.needs_supervisor(plan, bounded=bool(spare.groups))
        if alone:
            # The filter forbids the server to choose processors, so choose them here.
            os.sched_setaffinity(spare.pid, _processors(plan))
        running = LauncherChild(spare.pid, plan.backend, spare.groups, time.monotonic() + plan.time_s, spare.pins)
        try:
            spare.hand_over(packet, pipes)
        except OSError:
            running.forget()
            raise
        self._running[spare.pid] = running
        return spare.pid

    def _make_spare(self) -> None:
        missing = self._wanted - self._spares.keys()
        if missing and time.monotonic() >= self._spare_at:
            kind = missing.pop()
            self._spares[kind] = self._new_spare(kind)

    def _new_spare(self, kind: ServerKind | None) -> SpareProcess:
        self._number += 1
        expected = None if kind is None else self._expected.get(kind)
        return SpareProcess(f"{cgroups.names_of(os.getpid())}{self._number}", kind, expected)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            for kind in [kind for kind, spare in self._spares.items() if spare.pid == pid]:  # A spare was killed.
                lost = self._spares.pop(kind)
                lost.discard()
                self._leftover_groups += lost.groups
                self._spare_at = time.monotonic() + PATIENCE_S
            running = self._running.pop(pid, None)
            if running is not None:
                running.forget()
                self._leftover_groups += running.groups
                self._clear(self._kept)
                self._send({"ended": pid, "code": os.waitstatus_to_exitcode(status)})
        self._kill_strays(self._kept)
        self._leftover_groups = [group for group in self._leftover_groups if not cgroups.remove([group])]

    @property
    def _kept(self) -> set[int]:
        """The processes to keep: servers, children of running servers, and spares."""
        groups = [group for running in self._running.values() for group in running.groups]
        return {*self._running, *(spare.pid for spare in self._spares.values()), *cgroups.members(groups)}

    def _clear(self, kept: set[int]) -> None:
        """End the processes that servers left behind, and remove their groups."""
        until = time.monotonic() + CLEARING_S
        while self._kill_strays(kept) and time.monotonic() < until:
            for pid in _children() - kept:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)
        self._leftover_groups = [group for group in self._leftover_groups if not cgroups.remove([group])]

    def _kill_strays(self, kept: set[int]) -> set[int]:
        strays = (_children() - kept) | cgroups.members(self._leftover_groups)
        for pid in strays:
            _kill(pid, signal.SIGKILL, group=False)
        return strays

    def _until_next_end(self) -> float | None:
        ends = [running.ends_at for running in self._running.values()]
        if self._wanted - self._spares.keys():
            ends.append(self._spare_at)
        return None if not ends else min(max(min(ends) - time.monotonic(), 0.0), 3600.0)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for running in self._running.values():
            if now >= running.ends_at:
                running.signal(signal.SIGKILL if running.killed else signal.SIGTERM)
                running.killed = True
                running.ends_at = now + PATIENCE_S

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # If the hub is gone, the next read finds out.
            self._control.send(msgspec.json.encode(message))


def _child(launcher: socket.socket, groups: list[Path], parent: int, kind: ServerKind | None) -> None:
    """Wait for a plan, then become the contained server or its supervisor. Never returns."""
    code = FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        library = ctypes.CDLL(None)
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        library.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
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
        bubblewrap.become(plan, _processors(plan))
    return sandlock_backend.become(plan, _processors(plan), bounded=bounded)


def _processors(plan: StartPlan) -> list[int]:
    available = sorted(os.sched_getaffinity(0))
    return random.sample(available, min(plan.cpus, len(available)))


def _bound(plan: StartPlan) -> None:
    """Set the kernel's resource limits of this process, for every backend."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (plan.memory_bytes, plan.memory_bytes))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = plan.open_files if hard == resource.RLIM_INFINITY else min(plan.open_files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _children() -> set[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return {int(pid) for pid in listed.read().split()}
    except OSError:
        return set()


def _close(numbers: list[int]) -> None:
    while numbers:
        os.close(numbers.pop())


def _kill(pid: int, number: int, *, group: bool = True) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, number)


def main() -> None:
    with contextlib.suppress(ImportError):
        import sandlock  # noqa: F401 - loaded once here, not in each server's supervisor

        for network in (False, True):
            sandlock_backend.filter_below(network)
        sandlock_backend.filter_of_server()
        sandlock_backend.filter_of_forks()
    bubblewrap.filter_below()
    cgroups.remove_stale()
    gc.freeze()
    gc.disable()
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
