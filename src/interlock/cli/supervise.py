"""`interlock start`, `stop` and `restart`: commands for one server of the running hub."""

from __future__ import annotations

from typing import Any

import click

from .completion import server_names
from .failures import WrongUsage
from .perform import Json, performs
from .show import json_option, plain, say
from .up import stop_hub

_SERVER = click.argument("server", shell_complete=server_names)
_BECAUSE = click.option("--because", metavar="TEXT", help="The reason, for the audit log and for callers.")


@click.command()
@performs("servers.start")
@_SERVER
@_BECAUSE
def start(found: Json, **given: Any) -> None:
    """Start a server that was stopped or is down.

    \b
    Example:
      interlock start github
    """
    say(f"{plain(found['server'])} starts. → `interlock status` shows it")


@click.command()
@click.argument("server", required=False, shell_complete=server_names)
@_BECAUSE
@click.option("--now", is_flag=True, help="Do not wait for calls in progress.")
@json_option
def stop(server: str | None, because: str | None, now: bool, as_json: bool) -> None:
    """Stop a server, or without SERVER the hub.

    Calls in progress get up to 10 seconds to finish. The server stays stopped until you start or restart it, change its
    configuration, or start the hub again. Calls to its tools say so.

    \b
    Examples:
      interlock stop github --because "it costs too much"
      interlock stop
    """
    if server is not None:
        _stop_server(server=server, because=because, now=now, as_json=as_json)
    elif because or now:
        raise WrongUsage("--because and --now need a SERVER", "write `interlock stop SERVER`, or `interlock down`")
    else:
        stop_hub(as_json)


@performs("servers.stop")
def _stop_server(found: Json, **given: Any) -> None:
    say(f"{plain(found['server'])} has stopped. → `interlock start {plain(found['server'])}` starts it")


@click.command()
@performs("servers.restart")
@_SERVER
@_BECAUSE
def restart(found: Json, **given: Any) -> None:
    """End a server's present run and start it again.

    Calls in progress fail.

    \b
    Example:
      interlock restart github
    """
    say(f"{plain(found['server'])} starts again. → `interlock status` shows it")
