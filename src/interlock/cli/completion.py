"""`interlock completion`: the script that makes a shell complete our commands, and the names it completes them with.

Rule: whoever presses a key waits for nobody. A hub that does not answer at once has no names.
"""

from __future__ import annotations

from typing import Any

import click

from .failures import Failure

ANSWERS_WITHIN_S = 1.0


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


def tool_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The tools of the running hub that begin so."""
    return _begun(incomplete, [str(tool["name"]) for tool in _asked("hub/tools").get("tools") or []])


def server_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The servers of the running hub that begin so."""
    return _begun(incomplete, [str(server["id"]) for server in _asked("hub/status").get("servers") or []])


def _begun(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _asked(method: str) -> dict[str, Any]:
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    try:
        with HubLink.open(home_folder(), timeout=ANSWERS_WITHIN_S) as link:
            return link.ask(method, timeout=ANSWERS_WITHIN_S)
    except Failure:
        return {}
