"""The hub's client of the launcher: starts contained servers, and reports when they end.

Each hub process has one launcher. It is started with the first contained server, and again if it dies.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import IO, Any, Final, NamedTuple

import msgspec

from interlock.containment import cgroups
from interlock.containment.plan import plan
from interlock.containment.policy import Containment, ContainmentRefused, LauncherRequest, StartPlan

if sys.platform == "win32":
    raise ImportError("containment needs Linux")

PACKET: Final = 1 << 20
START_S: Final = 30.0
"""How long the launcher may take to start a server."""


class LaunchedServer(NamedTuple):
    """A server that the launcher started."""

    pid: int
    ended: Future[int]
    """The exit code, once the server and all processes that it left behind have ended."""


class ContainedProcess:
    """A contained server, with the attributes of `subprocess.Popen` that the transport uses."""

    def __init__(
        self, started: LaunchedServer, pipes: tuple[IO[bytes], IO[bytes], IO[bytes]], launcher: LauncherClient
    ) -> None:
        self.pid = started.pid
        self.stdin, self.stdout, self.stderr = pipes
        self.ended = started.ended
        self._launcher = launcher

    @property
    def returncode(self) -> int | None:
        return self.ended.result() if self.ended.done() else None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int:
        return self.ended.result()

    def send_signal(self, number: int) -> None:
        self._launcher.signal(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(_KILL)


_KILL: Final = signal.SIGKILL


class LauncherClient:
    """A running launcher process, and the servers that it started."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * PACKET)
        nothing = subprocess.DEVNULL
        command = (sys.executable, "-I", "-m", "interlock.containment.launcher_process", str(theirs.fileno()))
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control = ours
        self._lock = threading.Lock()
        self._number = 0
        self.starting: dict[int, Future[LaunchedServer]] = {}
        self.running: dict[int, LaunchedServer] = {}
        self.alive = True
        threading.Thread(target=self._read, name="launcher", daemon=True).start()

    def start(self, plan: StartPlan, pipes: tuple[int, int, int]) -> LaunchedServer:
        """Start a server on its ends of three pipes. Raises `ContainmentRefused`."""
        starting: Future[LaunchedServer] = Future()
        with self._lock:
            self._number += 1
            number = self._number
        packet = msgspec.json.encode(LauncherRequest(number, msgspec.Raw(msgspec.json.encode(plan))))
        if len(packet) > PACKET:
            raise ContainmentRefused("the server's command and variables are too long to contain it", "shorten them")
        with self._lock:
            self.starting[number] = starting
        try:
            socket.send_fds(self._control, [packet], pipes)
            return starting.result(START_S)
        except OSError as cause:
            self._give_up(number, starting)
            raise ContainmentRefused(f"the server cannot be contained: {str(cause) or 'it took too long'}") from None

    def _give_up(self, number: int, starting: Future[LaunchedServer]) -> None:
        """Forget a server that did not start in time. If it starts later, it is killed."""
        with self._lock:
            self.starting.pop(number, None)
        if starting.done() and starting.exception() is None:
            self.signal(starting.result().pid, _KILL)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a server and its group, unless it has ended."""
        with contextlib.suppress(OSError):
            self._control.send(msgspec.json.encode(LauncherRequest(pid=pid, signal=number)))

    def _read(self) -> None:
        while True:
            try:
                packet = self._control.recv(PACKET)
            except OSError:
                packet = b""
            if not packet:
                break
            self.take(msgspec.json.decode(packet))
        self.process.wait()
        cgroups.end_all(self.process.pid)  # The kernel ends a server with its launcher, but not the server's children.
        with self._lock:
            self.alive = False
            starting, running = [*self.starting.values()], [*self.running.values()]
        for one in starting:
            one.set_exception(ConnectionError("the launcher of contained servers ended"))
        for server in running:
            server.ended.set_result(-_KILL)  # Servers die with their launcher.

    def take(self, message: dict[str, Any]) -> None:
        with self._lock:
            if "ended" in message:
                self.running.pop(message["ended"]).ended.set_result(message["code"])
                return
            starting = self.starting.pop(message["id"], None)
            if "pid" in message:
                started = self.running[message["pid"]] = LaunchedServer(message["pid"], Future())
        if starting is None:
            if "pid" in message:
                self.signal(started.pid, _KILL)  # The start was given up.
        elif "pid" in message:
            starting.set_result(started)
        else:
            starting.set_exception(OSError(message["error"]))


_launcher: LauncherClient | None = None
_making = threading.Lock()


def launcher() -> LauncherClient:
    """The launcher of this process, started when first needed and again after it died."""
    global _launcher
    with _making:
        if _launcher is None or not _launcher.alive:
            _launcher = LauncherClient()
        return _launcher


def start_contained(
    containment: Containment, argv: tuple[str, ...], env: Mapping[str, str], cwd: str | None
) -> ContainedProcess:
    """Start a contained program, with pipes. Blocks. Raises `ContainmentRefused`, OSError or ValueError."""
    planned = plan(containment, argv, env, cwd)
    serving = launcher()
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    ours = (stdin_write, stdout_read, stderr_read)
    try:
        started = serving.start(planned, (stdin_read, stdout_write, stderr_write))
    except BaseException:
        for pipe in ours:
            os.close(pipe)
        raise
    finally:
        for pipe in (stdin_read, stdout_write, stderr_write):
            os.close(pipe)
    stdin, stdout, stderr = (os.fdopen(pipe, mode, 0) for pipe, mode in zip(ours, ("wb", "rb", "rb"), strict=True))
    return ContainedProcess(started, (stdin, stdout, stderr), serving)
