"""Python programs that start in a hundredth of the time.

A Python that imports the library takes a quarter of a second of processor time, with the official SDK more than one
second, and the tests start thousands of them. `command` gives the command of a small program that hands its
arguments, environment and streams to a fork server, which has everything imported and forks. The small program lives as
long as the fork does: it passes on signals, ends with the same exit code, and the fork ends if it is killed.

A test that looks at the process itself (its limits, its children, its memory) starts a Python of its own.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE.parents[1] / "src"
SHARED: Final = "TESTS_FORK_SERVER"
"""The variable with the address of the fork server that all workers of a test run share."""


def command(*arguments: str) -> tuple[str, ...]:
    """The command that runs Python with these arguments: a script or `-m` and a module, then what follows."""
    return (sys.executable, "-I", "-S", str(HERE / "program.py"), _socket(), *arguments)


def share() -> None:
    """Start the fork server here, for this process and the workers that it starts."""
    os.environ[SHARED] = _socket()


@cache
def _socket() -> str:
    """The address of the fork server: the shared one, or one of this process's own, which ends with it."""
    if shared := os.environ.get(SHARED):
        return shared
    folder = tempfile.TemporaryDirectory(prefix="fork-")
    path = f"{folder.name}/socket"
    line = [sys.executable, str(HERE / "fork_server.py"), path]
    # In a session of its own, so that a signal to this one's processes does not reach it.
    server = subprocess.Popen(
        line,
        cwd=folder.name,
        env={"PYTHONPATH": str(SOURCE)},
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
        folder.cleanup()

    atexit.register(end)
    return path
