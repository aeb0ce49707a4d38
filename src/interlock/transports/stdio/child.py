"""A child process whose start does not block the event loop: a thread starts it, then the loop takes over its pipes.

`loop.subprocess_exec` forks on the loop's thread, which takes longer the more memory the process has. `subprocess` in
a thread uses `vfork`, and waits there until the program is found and loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, Final, TypeAlias

from interlock.containment.launcher_client import ContainedProcess, start_contained
from interlock.containment.policy import Containment
from interlock.process.threads import WorkerThreads

if sys.platform == "win32":
    raise ImportError("event loops of Windows start processes by themselves")

Started: TypeAlias = subprocess.Popen[bytes] | ContainedProcess

THREADS: Final = 4
"""How many programs are loaded at once. A program on a slow disk blocks one thread only."""

STARTERS: Final = WorkerThreads(THREADS, "start-process")


class Child(asyncio.SubprocessTransport):
    """A running child, with the interface of `loop.subprocess_exec`. Made by `start`."""

    def __init__(self, popen: Started, protocol: asyncio.SubprocessProtocol) -> None:
        super().__init__()
        self._popen = popen
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._open: set[int] = set()
        self._early: list[Callable[[], None]] | None = []
        """Events from before the starter has the child; None from then on."""
        self._closes_files = isinstance(self._loop, asyncio.BaseEventLoop)
        self._exited = False
        self._lost = False
        self._handle: int | None = None

    @classmethod
    async def start(
        cls,
        protocol: asyncio.SubprocessProtocol,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str | None,
        containment: Containment | None = None,
    ) -> Child:
        """Run a program in a session of its own, all three streams as pipes.

        Raises OSError, ValueError, or `ContainmentRefused` if it cannot be contained.
        """
        starting: Future[Started]
        if containment is None:
            starting = STARTERS.submit(start_plain, argv, env, cwd)
        else:
            starting = STARTERS.submit(start_contained, containment, argv, env, cwd)
        try:
            popen = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_abandon)
            raise
        child = cls(popen, protocol)
        try:
            await child._attach()
        except BaseException:
            child._give_up()
            raise
        return child

    # asyncio.SubprocessTransport

    def get_pid(self) -> int:
        return self._popen.pid

    def get_returncode(self) -> int | None:
        return self._popen.returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._pipes.get(fd)

    def send_signal(self, signal: int) -> None:
        self._popen.send_signal(signal)

    def terminate(self) -> None:
        self._popen.terminate()

    def kill(self) -> None:
        self._popen.kill()

    def is_closing(self) -> bool:
        return self._lost

    def close(self) -> None:
        """Close its pipes. The process itself is reaped when it ends."""
        for pipe in self._pipes.values():
            pipe.close()

    # Handing it to the loop

    async def _attach(self) -> None:
        self._watch_exit()
        loop = self._loop
        self._open = {0, 1, 2}
        self._pipes[0], _ = await loop.connect_write_pipe(partial(_Pipe, self, 0), self.pipe_file(self._popen.stdin))
        self._pipes[1], _ = await loop.connect_read_pipe(partial(_Pipe, self, 1), self.pipe_file(self._popen.stdout))
        self._pipes[2], _ = await loop.connect_read_pipe(partial(_Pipe, self, 2), self.pipe_file(self._popen.stderr))
        self._protocol.connection_made(self)
        loop.call_soon(self._catch_up)

    def pipe_file(self, pipe: IO[bytes] | None) -> IO[bytes]:
        """A pipe's descriptor for the loop alone.

        uvloop closes it by its number and then the file it was given: by then another thread may have opened something
        under that number, so that file must not own it. asyncio closes the file alone.
        """
        assert pipe is not None
        number = os.dup(pipe.fileno())
        pipe.close()
        return os.fdopen(number, "wb" if pipe is self._popen.stdin else "rb", 0, closefd=self._closes_files)

    def _catch_up(self) -> None:
        early, self._early = self._early or [], None
        for happened in early:
            happened()

    def _give_up(self) -> None:
        """End a child whose starter was cancelled."""
        self._early = []
        _kill(self._popen)
        self.close()
        _close_pipes(self._popen)

    # Events of the child

    def happened(self, listener: Callable[[], None]) -> None:
        """Tell the protocol now, or as soon as it knows of its process."""
        if self._early is None:
            listener()
        else:
            self._early.append(listener)

    def pipe_lost(self, fd: int, exc: Exception | None) -> None:
        """One of its pipes is closed."""
        self._open.discard(fd)
        self._protocol.pipe_connection_lost(fd, exc)
        self._lose()

    def _watch_exit(self) -> None:
        if isinstance(self._popen, ContainedProcess):
            self._popen.ended.add_done_callback(self._on_process_end)
            return
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # an old kernel, or no descriptor left
                self._handle = os.pidfd_open(self._popen.pid)
                self._loop.add_reader(self._handle, self._reap)
                return
        threading.Thread(target=self._wait, name=f"wait-{self._popen.pid}", daemon=True).start()

    def _reap(self) -> None:
        if self._popen.poll() is None or self._handle is None:
            return
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self._handle = None
        self.happened(self._exit)

    def _wait(self) -> None:
        self._popen.wait()
        self._tell_exit()

    def _on_process_end(self, ended: Future[int]) -> None:
        self._tell_exit()

    def _tell_exit(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.happened, self._exit)

    def _exit(self) -> None:
        self._exited = True
        self._protocol.process_exited()
        self._lose()

    def _lose(self) -> None:
        """It is gone when it has exited and all it wrote was read."""
        if self._exited and not self._open and not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)


class _Pipe(asyncio.Protocol):
    """Passes on what happens at one pipe."""

    def __init__(self, child: Child, fd: int) -> None:
        self._child = child
        self._fd = fd
        # Bound once: every piece that a server writes comes through here.
        self._received = child._protocol.pipe_data_received

    def data_received(self, data: bytes) -> None:
        if self._child._early is None:
            self._received(self._fd, data)
        else:
            self._child.happened(partial(self._received, self._fd, data))

    def pause_writing(self) -> None:
        self._child._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._child._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.happened(partial(self._child.pipe_lost, self._fd, exc))


def start_plain(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True
    )


def _abandon(starting: Future[Started]) -> None:
    """End a process that was started for somebody who no longer waits for it."""
    if starting.cancelled() or starting.exception() is not None:
        return
    popen = starting.result()
    _kill(popen)
    _close_pipes(popen)
    popen.wait()


def _close_pipes(popen: Started) -> None:
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        if pipe is not None:
            pipe.close()


def _kill(popen: Started) -> None:
    if isinstance(popen, ContainedProcess):
        popen.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
