"""The terminal face. Importing it costs nothing; each command brings what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Runs `interlock` with the arguments of this process."""
    import os
    import sys

    import click

    from .app import app

    try:
        sys.exit(app.main(prog_name="interlock", standalone_mode=False) or 0)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as failure:
        failure.show()
        sys.exit(failure.exit_code)
    except BrokenPipeError:
        # Whoever read our output has enough; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
