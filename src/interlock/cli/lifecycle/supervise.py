"""`interlock start`, `stop` and `restart`: commands for one server of the running hub."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import click

from interlock.cli.control.completion import server_names
from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.perform import Json, perform, performs
from interlock.cli.lifecycle.status import STARTING, server_lines
from interlock.cli.lifecycle.up import stop_hub
from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import json_option, plain, say, show_json

START_S = 30.0
"""How long `start` and `restart` wait for the server."""

_SERVER = click.argument("server", shell_complete=server_names)
_BECAUSE = click.option("--because", metavar="TEXT", help="The reason, for the audit log and for callers.")


@click.command()
@_SERVER
@_BECAUSE
@json_option
def start(server: str, because: str | None, as_json: bool) -> None:
    """Start a server that was stopped or is down.

    It waits until the server runs, and ends with 1 if it cannot.

    \b
    Example:
      interlock start github
    """
    perform("servers.start", {"server": server, "because": because})
    _show_started(server, as_json)


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
    say(f"{plain(found['server'])} is stopped. → `interlock start {plain(found['server'])}` starts it")


@click.command()
@_SERVER
@_BECAUSE
@click.option("--now", is_flag=True, help="Do not wait for calls in progress: they fail.")
@json_option
def restart(server: str, because: str | None, now: bool, as_json: bool) -> None:
    """End a server's present run and start it again.

    Calls in progress get up to 10 seconds to finish. New calls wait until the server is back.

    \b
    Example:
      interlock restart github
    """
    perform("servers.restart", {"server": server, "because": because, "now": now})
    _show_started(server, as_json)


def _show_started(server: str, as_json: bool) -> None:
    """Print the server once it runs or has failed, and end with 1 if it has failed."""
    deadline = monotonic() + START_S
    with HubLink.open() as link:
        while True:
            rows = link.ask("hub/status")["servers"]
            row = next((row for row in rows if row["id"] == server), {"id": server, "state": "removed"})
            if row["state"] not in STARTING or monotonic() >= deadline:
                break
            sleep(0.05)
    failed = row["state"] not in ("connected", *STARTING) and not row.get("needs_login")
    if as_json:
        show_json({"server": server, "state": row["state"], "problem": row.get("problem")})
    elif row["state"] in STARTING:
        say(f"{plain(server)} is still starting. → `interlock status` shows it")
    elif not failed:
        for line in server_lines([row]):
            say(line)
    if failed:
        raise CommandFailure(
            row.get("problem") or f"{server} is {row['state']}", row.get("hint") or "see `interlock status`"
        )
