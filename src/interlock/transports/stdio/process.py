"""One server process: started in a session of its own, ended with everything it started.

It knows bytes and signals, not messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, Protocol, cast

import msgspec

from interlock.containment.policy import Containment, ContainmentRefused
from interlock.process.descriptors import as_given
from interlock.transports.batching import Batching, Receiver
from interlock.transports.stdio.orphan_processes import LEFTOVERS, MARK, MARKS
from interlock.wire.errors import Fault

if sys.platform != "win32":
    from interlock.transports.stdio.child import Child

STDIN, STDOUT, STDERR = 0, 1, 2

PATIENCE: Final = 2.0
"""Seconds between closing stdin, SIGTERM and SIGKILL."""

LINGER: Final = 1.0
"""Seconds that pipes may stay open after the process has gone (a daemon that left the session may hold them)."""

if sys.platform == "win32":
    INHERITED: Final = (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
else:
    INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


class Command(msgspec.Struct, frozen=True):
    """How a server is started. No shell is involved."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    """On top of the few variables that every server inherits."""
    cwd: str | None = None
    containment: Containment | None = None
    """Its limits, if it runs contained."""


class ProcessListener(Protocol):
    """The link to the process."""

    @property
    def output(self) -> Receiver:
        """Takes the bytes on stdout."""

    def on_stderr(self, data: bytes) -> None:
        """Bytes on stderr."""

    def hung_up(self, fd: int) -> None:
        """The process closed one of its streams."""

    def paused(self, full: bool) -> None:
        """Its stdin is full, or has room again."""

    def exited(self) -> None:
        """The process ended. Its last output still arrives."""

    def ended(self, code: int | None) -> None:
        """It is gone, and so is its group. Called once, after everything that it wrote was handed over."""


def environment(command: Command) -> dict[str, str]:
    """The environment of the process: a few inherited variables, the configured ones, and the mark to find it by."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # An exported shell function is code (the same rule as in other clients).
    plain = {name: value for name, value in inherited.items() if not value.startswith("()")}
    return plain | dict(command.env) | _marking()


class ServerProcess(asyncio.SubprocessProtocol):
    """A running server."""

    def __init__(self, listener: ProcessListener, write_limit: int) -> None:
        self._listener = listener
        self._output = listener.output
        self._write_limit = write_limit
        self._loop = asyncio.get_running_loop()
        self._batching = Batching.of(self._loop)
        self._gone = self._loop.create_future()
        self._ended = False
        self._linger: asyncio.TimerHandle | None = None
        self._mark = ""
        self._contained = False
        """Whether the launcher started it, and ends what it leaves behind."""
        self._clearing: asyncio.Future[None] | None = None
        """The hub is ending processes that it left behind in other sessions."""
        self._transport: asyncio.SubprocessTransport
        self.stdin: asyncio.WriteTransport
        """Takes the bytes for the process."""
        self.pid: int = 0

    @classmethod
    async def start(cls, command: Command, listener: ProcessListener, write_limit: int) -> ServerProcess:
        """Run the command. Raises UPSTREAM_UNAVAILABLE, saying what is missing."""
        if not command.argv:
            raise Fault("UPSTREAM_UNAVAILABLE", "no command is configured", hint="name the program to run")
        process = cls(listener, write_limit)
        env = environment(command)
        if command.containment is None:
            process._mark = env.get(MARK, "")
        else:
            process._contained = True
        try:
            await _run(process, command, env)
        except ContainmentRefused as refused:
            raise Fault("UPSTREAM_UNAVAILABLE", refused.message, hint=refused.hint) from None
        except (OSError, ValueError) as cause:
            raise _cannot_start(command, cause) from None
        return process

    @property
    def buffered(self) -> int:
        """Bytes written that the process has not taken yet."""
        return 0 if self.stdin.is_closing() else self.stdin.get_write_buffer_size()

    def read(self, fd: int, *, on: bool) -> None:
        """Resume reading one of its streams, or leave its output in the pipe."""
        pipe = cast(asyncio.ReadTransport | None, self._transport.get_pipe_transport(fd))
        if pipe is None or pipe.is_closing():
            return
        if on:
            pipe.resume_reading()
        else:
            pipe.pause_reading()

    async def end(self) -> None:
        """Close stdin, wait, SIGTERM, wait, SIGKILL; each to the whole group. Returns when everything is gone."""
        await self._end_group()
        if self._clearing is not None:
            await asyncio.shield(self._clearing)

    async def _end_group(self) -> None:
        self.stdin.close()
        for number in (None, _TERM, _KILL):
            if number is not None:
                self._signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await asyncio.shield(self._gone)
            if self._gone.done():
                return
        # Not even SIGKILL: a process stuck in the kernel. Its pipes are given up, it will be reaped when it dies.
        self._finish()

    # asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self.pid = self._transport.get_pid()
        if not self._contained:
            as_given(self.pid)
        self.stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(STDIN))
        # One that ended at once has closed it already, which uvloop minds. Its end is reported later.
        with contextlib.suppress(RuntimeError):
            self.stdin.set_write_buffer_limits(high=self._write_limit)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == STDOUT:
            self._batching.received(self._output, data)
        else:
            self._listener.on_stderr(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if not self._ended:
            self._listener.hung_up(fd)

    def pause_writing(self) -> None:
        self._listener.paused(True)

    def resume_writing(self) -> None:
        self._listener.paused(False)

    def process_exited(self) -> None:
        if not self._contained:
            # Its leftover children end with it, before the number of the group can belong to another process.
            self._signal(_KILL)
        if self._mark:
            self._clearing = asyncio.wrap_future(LEFTOVERS.end(self._mark), loop=self._loop)
        self._listener.exited()
        self._linger = self._loop.call_later(LINGER, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._linger is not None:
            self._linger.cancel()
        self._transport.close()
        if not self._gone.done():
            self._gone.set_result(None)
        self._listener.ended(self._transport.get_returncode())

    def _signal(self, number: int) -> None:
        if sys.platform == "win32":
            # Once it is gone, another process may have its number, so its children cannot be found by it.
            if self._transport.get_returncode() is None:
                _end_tree(self.pid, self._transport)
            return
        if self._contained:
            self._transport.send_signal(number)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


if sys.platform == "win32":
    _TERM = _KILL = signal.SIGTERM
    # A hub in the background has no console, and each program would open a window for its own.
    _FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    _marking = dict
else:
    _TERM, _KILL = signal.SIGTERM, signal.SIGKILL
    _FLAGS = 0
    _marking = MARKS.new


async def _run(process: ServerProcess, command: Command, env: Mapping[str, str]) -> None:
    argv, cwd = command.argv, command.cwd
    if sys.platform != "win32":
        await Child.start(process, argv, env, cwd, command.containment)
        return
    if command.containment is not None:
        raise ContainmentRefused("containment needs Linux", "run the hub on Linux, or in a virtual machine")
    # Windows by itself looks for `npx.exe` alone, and not for `npx.cmd`.
    found = await asyncio.to_thread(shutil.which, argv[0], path=env.get("PATH"))
    await asyncio.get_running_loop().subprocess_exec(
        lambda: process,
        *(argv if found is None else (found, *argv[1:])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        creationflags=_FLAGS,
    )


def _end_tree(pid: int, transport: asyncio.SubprocessTransport) -> None:
    """End a process and everything it started, where there are no process groups to signal (Windows)."""
    nothing = subprocess.DEVNULL
    command = ("taskkill", "/T", "/F", "/PID", str(pid))
    try:
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=_FLAGS)
    except OSError:
        with contextlib.suppress(ProcessLookupError):
            transport.kill()


def _cannot_start(command: Command, cause: Exception) -> Fault:
    program = command.argv[0]
    if isinstance(cause, FileNotFoundError | NotADirectoryError):
        if command.cwd is not None and not os.path.isdir(command.cwd):
            return Fault("UPSTREAM_UNAVAILABLE", f"no such folder: {command.cwd}", hint="correct the working folder")
        hint = "install it, or give its absolute path"
        return Fault("UPSTREAM_UNAVAILABLE", f"command not found: {program}", hint=hint)
    if isinstance(cause, PermissionError):
        return Fault("UPSTREAM_UNAVAILABLE", f"not allowed to run {program}", hint="make the file executable")
    if isinstance(cause, OSError) and cause.errno in _EXHAUSTED:
        lacking, hint = _EXHAUSTED[cause.errno]
        return Fault("UPSTREAM_UNAVAILABLE", f"cannot start {program}: {lacking}", hint=hint)
    return Fault("UPSTREAM_UNAVAILABLE", f"cannot start {program}: {cause}")


_FILES = ("the hub has too many open files", "raise the limit (`ulimit -n`), or close connections and servers")
_EXHAUSTED: dict[int, tuple[str, str]] = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.EAGAIN: (
        "this system allows no more processes and threads",
        "raise the limit (`ulimit -u`, or the container's limit of processes), or end other programs",
    ),
    errno.ENOMEM: ("the system has no memory left", "end other programs, or give the hub more memory"),
}
