"""The command line. Each command imports the modules it needs only when it runs."""

from __future__ import annotations


def main() -> None:
    """Run `interlock` with the arguments of this process."""
    import sys

    try:
        sys.exit(_code())
    except KeyboardInterrupt:  # The interrupt came before a command ran.
        sys.exit(130)


def _code() -> int:
    import click

    from interlock.cli.app import app
    from interlock.cli.terminal.failures import OutputClosed

    try:
        return int(app.main(prog_name="interlock", standalone_mode=False) or 0)
    except click.Abort:
        return 130
    except click.ClickException as failure:
        failure.show()
        return failure.exit_code
    except OutputClosed:
        return 0
    finally:
        _flush_output()


def _flush_output() -> None:
    """Flush the output, or discard it if it is closed: Python would report the failure again at exit."""
    import os
    import sys

    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
