"""The launcher: a process that starts contained servers for the hub and ends everything that they leave behind.

It reads one request per packet from its control socket, with the server's three pipes attached, and reports when a
server has started or ended. It adopts orphaned processes, so that no contained process outlives its server.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from interlock.containment import bubblewrap, cgroups, sandlock_backend
from interlock.containment.launcher_child import LauncherChild, kill
from interlock.containment.policy import LauncherRequest, StartPlan
from interlock.containment.spare_process import PACKET, SET_SUBREAPER, processors
from interlock.containment.spare_processes import SpareProcesses

if sys.platform != "linux":
    raise ImportError("containment needs Linux")

PATIENCE_S: Final = 2.0
"""The time between SIGTERM and SIGKILL for a server whose `time_s` is over."""
CLEARING_S: Final = 1.0
"""How long the end of a server is delayed until the processes that it left behind have ended."""
_REQUEST: Final = msgspec.json.Decoder(LauncherRequest)
_PLAN: Final = msgspec.json.Decoder(StartPlan)


class Launcher:
    """Starts, watches and ends contained servers."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._hub = control.fileno()
        self._running: dict[int, LauncherChild] = {}
        self._leftover_groups: list[Path] = []
        self._spares = SpareProcesses()
        self._woken, waking = os.pipe()
        for end in (self._woken, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ctypes.CDLL(None).prctl(SET_SUBREAPER, 1, 0, 0, 0)

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
                self._spares.prepare()
        finally:
            self._leftover_groups += self._spares.discard()
            for pid, running in self._running.items():
                kill(pid, signal.SIGKILL)
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
        spare = self._spares.take(plan)
        alone = plan.backend == "sandlock" and not sandlock_backend.needs_supervisor(plan, bounded=bool(spare.groups))
        if alone:
            # The filter forbids the server to choose processors, so choose them here.
            os.sched_setaffinity(spare.pid, processors(plan))
        running = LauncherChild(spare.pid, plan.backend, spare.groups, time.monotonic() + plan.time_s, spare.pins)
        try:
            spare.hand_over(packet, pipes)
        except OSError:
            running.forget()
            raise
        self._running[spare.pid] = running
        return spare.pid

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            self._leftover_groups += self._spares.on_ended(pid)
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
        return {*self._running, *self._spares.pids, *cgroups.members(groups)}

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
            kill(pid, signal.SIGKILL, group=False)
        return strays

    def _until_next_end(self) -> float | None:
        ends = [running.ends_at for running in self._running.values()]
        if self._spares.next_at is not None:
            ends.append(self._spares.next_at)
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


def _children() -> set[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return {int(pid) for pid in listed.read().split()}
    except OSError:
        return set()


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
