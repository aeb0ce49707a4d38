"""The terminal face. Importing it costs nothing; each command brings what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Runs `interlock` with the arguments of this process."""
    import sys

    try:
        sys.exit(_code())
    except KeyboardInterrupt:  # before there was a command to interrupt
        sys.exit(130)


def _code() -> int:
    """Runs the command. The exit code."""
    import click

    from .app import app
    from .failures import Enough

    try:
        return int(app.main(prog_name="interlock", standalone_mode=False) or 0)
    except click.Abort:
        return 130
    except click.ClickException as failure:
        failure.show()
        return failure.exit_code
    except Enough:
        return 0
    finally:
        _give_up_output()


def _give_up_output() -> None:
    """What could not be written would be tried again at the end, and be told again."""
    import os
    import sys

    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
