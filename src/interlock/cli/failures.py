"""How a command fails: one sentence, then how to fix it, on standard error, with a code that says what kind it was."""

from __future__ import annotations

import errno
from typing import IO, Any

import click


class Failure(click.ClickException):
    """A command could not do what was asked."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        from .show import coloured, plain, say

        say(coloured(f"interlock: {plain(self.message)}", "red", err=True), err=True)
        if self.hint:
            say(f"  → {plain(self.hint)}", err=True)


class WrongUsage(Failure):
    exit_code = 2


class WrongConfiguration(Failure):
    exit_code = 3


class NoHub(Failure):
    exit_code = 4

    def __init__(self) -> None:
        super().__init__("no hub is running", "start it with `interlock up` (or `interlock up -d`)")


class Refused(Failure):
    exit_code = 5


class Enough(Exception):
    """Whoever read our output has closed it; nothing is left to say."""


def of_the_system(error: OSError) -> Failure:
    """What the system did not let a command do, with the place and the fix."""
    place = error.filename2 or error.filename
    if place is None and error.errno == errno.ENOENT:  # only the folder one is in has no name then
        return Failure("the folder that you are in is no longer there", "change to another, then repeat it")
    shown = f"{place}: " if isinstance(place, str) else ""
    return Failure(f"{shown}{error.strerror or error}", _HINTS.get(error.errno or 0, ""))


_PERMISSIONS = "correct its permissions; the hub itself can live elsewhere, in a folder that INTERLOCK_HOME names"
_SPACE = "free some space on that disk, then repeat it"
_HINTS = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "it is on a disk that cannot be written; INTERLOCK_HOME can name a folder elsewhere for the hub",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENOENT: "make the folder first, or name another place",
    errno.ENOTDIR: "a part of this path is a file; name another place",
    errno.EISDIR: "this is a folder; name a file",
}
