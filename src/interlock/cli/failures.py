"""How a command fails: one sentence, then how to mend it, on standard error, with a code that says what kind it was."""

from __future__ import annotations

from typing import IO, Any

import click

FAILED = 1
WRONG_CONFIGURATION = 3
NO_HUB = 4
REFUSED = 5


class Failure(click.ClickException):
    """A command could not do what was asked."""

    def __init__(self, message: str, mend: str = "", *, code: int = FAILED) -> None:
        super().__init__(message)
        self.mend = mend
        self.exit_code = code

    def show(self, file: IO[Any] | None = None) -> None:
        from .show import plain

        click.secho(f"interlock: {plain(self.message)}", fg="red", err=True)
        if self.mend:
            click.echo(f"  → {plain(self.mend)}", err=True)


def no_hub() -> Failure:
    return Failure("no hub is running", "start it with `interlock up` (or `interlock up -d`)", code=NO_HUB)
