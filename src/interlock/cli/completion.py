"""`interlock completion`: the script that makes a shell complete our commands."""

from __future__ import annotations

import click

from .failures import Failure


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example:
      interlock completion zsh >> ~/.zshrc
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise Failure(f"there is no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "interlock", "_INTERLOCK_COMPLETE").source())
