"""Processes under measurement: pinned to a core, read through /proc, ended by their own handle."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


def pin(core: int | None) -> None:
    """Keep the calling process on one core, where the system can."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def cores() -> tuple[int, int] | None:
    """The core of what is measured, and that of load and upstream; None where there are no two to choose."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else None


class Process:
    """One process, with what it wrote kept in a file for whoever wants to know why it ended."""

    def __init__(
        self, command: Sequence[str], *, core: int | None, log: Path, env: dict[str, str] | None = None, cwd: Path
    ) -> None:
        self._log = log
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=cwd,
                env=_environment(env or {}),
                preexec_fn=lambda: pin(core),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def wait_port(self, port: int, seconds: float = 30.0) -> None:
        """Return when something listens there. Raises `NotRunning` if the process ends first."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.popen.poll() is not None:
                raise NotRunning(self.last_words())
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.02)
        raise NotRunning(f"nothing listens on port {port} after {seconds:g} s: {self.last_words()}")

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-400:].strip()

    def end(self) -> None:
        """Stop it and wait; kill it if it does not."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def _environment(more: dict[str, str]) -> dict[str, str]:
    """The environment of a measured process. Installed programs have compiled files, so these are written here too."""
    env = {**os.environ, **more}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


class NotRunning(Exception):
    """A process did not come up."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time used so far by these processes, all their threads together."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
    return total / 1e9


def memory_mb(pids: Sequence[int]) -> float:
    """Resident memory now, in megabytes."""
    pages = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm") as statm:
            pages += int(statm.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
