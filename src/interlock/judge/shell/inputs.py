"""Commands that arrive as the input of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.judge.shell.script import Command, Redirect

READ_COMMANDS: Final = frozenset({"dc", "ed", "ex", "ftp", "sftp", "sqlite3"})
"""Programs that take commands from their input, a line each."""
RUN_LATER: Final = frozenset({"at", "batch"})
"""Programs that have a shell run their input later."""


def reader_of(redirect: Redirect, commands: Sequence[Command]) -> Command | None:
    """The command that a redirection belongs to: the innermost around it, or else the last before it."""
    around = [each for each in commands if each.start <= redirect.start < each.end]
    if around:
        return max(around, key=lambda each: each.start)
    return max((each for each in commands if each.end <= redirect.start), key=lambda each: each.end, default=None)
