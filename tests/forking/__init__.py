"""Python programs that start in a hundredth of the time.

A Python that imports the library takes a quarter of a second of processor time, with the official SDK more than one
second, and the tests start thousands of them. `command` gives the command of a small program that hands its
arguments, environment and streams to a fork server, which has everything imported and forks. The small program lives as
long as the fork does: it passes on signals, ends with the same exit code, and the fork ends if it is killed.

The small program is written in C, and where no compiler is, in Python, which takes twenty times longer to start.

The workers of pytest-xdist start in the same way: `workers` starts a second server, which collects the tests once.

A test that looks at the process itself (its limits, its children, its memory) starts a Python of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE.parents[1] / "src"
NO_ARGUMENTS: Final = 2
"""The exit code of the compiled program without arguments."""
SHARED: Final = "TESTS_FORK_SERVER"
"""The variable with the address of the fork server that all workers of a test run share."""


def command(*arguments: str) -> tuple[str, ...]:
    """The command that runs Python with these arguments: a script or `-m` and a module, then what follows."""
    socket = _socket()
    return (*_program(socket), socket, *arguments)


def share() -> None:
    """Start the fork server here, for this process and the workers that it starts."""
    os.environ[SHARED] = _socket()


@cache
def _program(socket: str) -> tuple[str, ...]:
    """The command of the small program: the compiled one beside the socket, if there is one."""
    compiled = Path(socket).with_name("program")
    return (str(compiled),) if compiled.exists() else (sys.executable, "-I", "-S", str(HERE / "program.py"))


def _compile(folder: str) -> None:
    """Put the compiled program into a folder, unless there is no compiler or programs cannot run from there."""
    built = Path(folder) / "built"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        line = ("cc", "-O1", "-o", str(built), str(HERE / "program.c"))
        subprocess.run(line, check=True, capture_output=True, timeout=60)
        if subprocess.run([str(built)], check=False, timeout=60).returncode == NO_ARGUMENTS:
            built.rename(built.with_name("program"))


@cache
def _socket() -> str:
    """The address of the fork server: the shared one, or one of this process's own, which ends with it."""
    if shared := os.environ.get(SHARED):
        return shared
    folder = tempfile.TemporaryDirectory(prefix="fork-")
    _compile(folder.name)
    path = f"{folder.name}/socket"
    atexit.register(folder.cleanup)
    _start_server(path, *_program(path), cwd=folder.name, env={"PYTHONPATH": str(SOURCE)})
    return path


def workers(arguments: Sequence[str]) -> tuple[str, ...]:
    """The command of a Python for a worker of pytest-xdist, in which the tests that pytest collects with these
    arguments are imported already."""
    socket = f"{_socket()}-of-workers"
    _start_server(socket, "--collect", *arguments, cwd=None, env=None)
    return (*_program(_socket()), socket)


def _start_server(path: str, *arguments: str, cwd: str | None, env: Mapping[str, str] | None) -> None:
    """Start a fork server that ends with this process."""
    # In a session of its own, so that a signal to this one's processes does not reach it.
    server = subprocess.Popen(
        [sys.executable, str(HERE / "fork_server.py"), path, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def end(stdin=server.stdin) -> None:
        stdin.close()
        server.wait()

    atexit.register(end)
