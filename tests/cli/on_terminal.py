"""Runs `interlock` on a real terminal (a pty)."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator

from .conftest import User

PASSPHRASE = b"correct horse\n"


@contextlib.contextmanager
def _terminal(user: User, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The terminal's own end, and the program on the other. It has ended when the other side closed the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "interlock.cli", *arguments],
        env={**user.environ, "TERM": "xterm"},
        cwd=user.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        with contextlib.suppress(OSError):  # the other side has closed
            yield ours, process
    finally:
        os.close(ours)


def finished_on_terminal(user: User, *arguments: str, typed: bytes = b"", wait_for: bytes = b"") -> tuple[int, str]:
    """Run a command to its end, and type once `wait_for` was shown. Returns its exit code and all that was shown."""
    shown = b""
    with _terminal(user, *arguments) as (ours, process):
        while True:
            shown += os.read(ours, 4096)
            if wait_for and wait_for in shown:
                os.write(ours, typed)
                wait_for = b""
    return process.wait(120), shown.decode()


def on_terminal(user: User, *arguments: str, script: list[tuple[bytes, bytes]] | None = None) -> str:
    """Run a command, and type each thing once what it waits for was shown. Returns all that was shown.

    Without a script it runs to its end, with one until the last thing was shown.
    """
    shown, seen, typed = b"", 0, b""
    deadline = time.monotonic() + 120
    with _terminal(user, *arguments) as (ours, process):
        while time.monotonic() < deadline and script != []:
            if not select.select([ours], [], [], 0.5)[0]:
                # The program drops keys that come before its question, as it should. A passphrase is typed once:
                # after its prompt the terminal shows again what is typed.
                os.write(ours, b"" if typed == PASSPHRASE else typed)
                continue
            shown += os.read(ours, 4096)
            while script and (place := shown.find(script[0][0], seen)) >= 0:
                seen = place + len(script[0][0])
                typed = script.pop(0)[1]
                os.write(ours, typed)
    process.kill()
    process.wait(120)
    return shown.decode()
