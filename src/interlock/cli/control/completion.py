"""`interlock completion`: prints the completion script of a shell, and completes tool and server names.

Completion must not make the user wait. If the hub does not answer at once, there are no names.
"""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.terminal.failures import CommandFailure

ANSWER_TIMEOUT_S = 1.0


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
        raise CommandFailure(f"there is no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "interlock", "_INTERLOCK_COMPLETE").source())


def tool_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of tools of the running hub."""
    return _matching(incomplete, [str(tool["name"]) for tool in _ask_quickly("hub/tools").get("tools") or []])


def server_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of servers of the running hub."""
    return _matching(incomplete, [str(server["id"]) for server in _ask_quickly("hub/status").get("servers") or []])


def _matching(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _ask_quickly(method: str) -> dict[str, Any]:
    from interlock.cli.control.hub_link import HubLink

    try:
        with HubLink.open(timeout=ANSWER_TIMEOUT_S) as link:
            return link.ask(method, timeout=ANSWER_TIMEOUT_S)
    except CommandFailure:
        return {}
