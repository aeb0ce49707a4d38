"""The ways a command fails. Each prints one sentence and its fix on standard error, and has its own exit code."""

from __future__ import annotations

import errno
from typing import IO, Any

import click


class CommandFailure(click.ClickException):
    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self._context = click.get_current_context(silent=True)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it: as JSON on standard output where the command was to print JSON and has not yet."""
        from interlock.cli.terminal.show import coloured, plain, say, show_json, wants_json

        if self._context is not None and wants_json(self._context):
            show_json({"error": {"message": self.message, "hint": self.hint, "exit_code": self.exit_code}})
            return
        say(coloured(f"interlock: {plain(self.message)}", "red", err=True), err=True)
        if self.hint:
            say(f"  → {plain(self.hint)}", err=True)


class WrongUsage(CommandFailure):
    exit_code = 2


class WrongConfiguration(CommandFailure):
    exit_code = 3


class NoHub(CommandFailure):
    exit_code = 4

    def __init__(
        self, message: str = "no hub is running", hint: str = "start it with `interlock up` (or `interlock up -d`)"
    ) -> None:
        super().__init__(message, hint)


class CommandRefused(CommandFailure):
    exit_code = 5


class OutputClosed(Exception):
    """The program that reads our output has closed it."""


def system_failure(error: OSError) -> CommandFailure:
    """An error of the operating system, with its path and fix."""
    place = error.filename2 or error.filename
    if place is None and error.errno == errno.ENOENT:  # only the current folder has no name
        return CommandFailure("the current folder no longer exists", "change to another folder and try again")
    shown = f"{place}: " if isinstance(place, str) else ""
    return CommandFailure(f"{shown}{error.strerror or error}", _HINTS.get(error.errno or 0, ""))


_PERMISSIONS = "correct its permissions; for the hub's own files, you can set INTERLOCK_HOME to another folder"
_SPACE = "free some space on that disk and try again"
_HINTS = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "this disk is read-only; set INTERLOCK_HOME to a folder on another disk",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENOENT: "create the folder first, or choose another path",
    errno.ENOTDIR: "a part of this path is a file; choose another path",
    errno.EEXIST: "choose a file that does not exist yet, or remove this one",
    errno.EISDIR: "this is a folder; choose a file",
}
