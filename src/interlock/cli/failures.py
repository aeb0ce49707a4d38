"""How a command fails: one sentence, then how to mend it, on standard error, with a code that says what kind it was."""

from __future__ import annotations

from typing import IO, Any

import click


class Failure(click.ClickException):
    """A command could not do what was asked."""

    exit_code = 1

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.mend = mend

    def show(self, file: IO[Any] | None = None) -> None:
        from .show import coloured, plain, say

        say(coloured(f"interlock: {plain(self.message)}", "red", err=True), err=True)
        if self.mend:
            say(f"  → {plain(self.mend)}", err=True)


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
