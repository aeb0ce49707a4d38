"""`interlock discovery`: servers of a running hub, those registered while it runs included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interlock.cli.control.perform import Json, perform, performs, say_rows
from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import bold, counted, json_option, plain, say, show_json

_STATUS = click.option("--status", metavar="STATE", help="Only servers in this state.")
_IDS = click.option("--id", "ids", multiple=True, metavar="ID", help="Only this server.")


@click.group(invoke_without_command=True)
@_STATUS
@_IDS
@json_option
@click.pass_context
def discovery(ctx: click.Context, status: str | None, ids: tuple[str, ...], as_json: bool) -> None:
    """List, register and deregister servers while the hub runs.

    Without a command, it lists all servers, also registered ones and those that were never started. Registered servers
    run contained, and agents may call them only with a grant.

    \b
    Example:
      interlock discovery
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, status=status, ids=ids, as_json=as_json)


@discovery.command("list")
@_STATUS
@_IDS
@json_option
def list_(status: str | None, ids: tuple[str, ...], as_json: bool) -> None:
    """List all servers, also registered ones and those that were never started.

    \b
    Example:
      interlock discovery list
    """
    filters = {name: value for name, value in (("status", status), ("ids", list(ids))) if value}
    found = perform("discovery.list", {"filter": filters})
    if as_json:
        show_json(found)
        return
    say_rows(found["servers"], _server, "No servers yet.")


@discovery.command()
@click.argument("name")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…")
@click.option("--because", metavar="TEXT", help="The reason, stored with the registration.")
@json_option
def register(name: str, command: tuple[str, ...], because: str | None, as_json: bool) -> None:
    """Register a server. A Python script is copied, and runs as it is now.

    \b
    Example:
      interlock discovery register stats -- python /srv/stats.py
    """
    source = ""
    if len(command) > 1 and command[1].endswith(".py"):
        try:
            source = Path(command[1]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUsage(f"cannot read {command[1]}: {error}", "give the path of the script") from error
    request = {"id": name, "command": command[0], "args": list(command[1:]), "source": source, "justification": because}
    found = perform("discovery.register", request)
    if as_json:
        show_json(found)
        return
    say(f"Registered `{plain(found['server_id'])}`. It runs contained.")
    say(f"Let an agent use it: interlock grants allow AGENT {plain(found['server_id'])}")


@discovery.command()
@performs("discovery.deregister")
@click.argument("id")
def deregister(found: Json, id: str) -> None:
    """Remove a registered server. It ends after its open calls.

    \b
    Example:
      interlock discovery deregister stats
    """
    say(f"Removed `{plain(found['id'])}`.")


def _server(row: dict[str, Any]) -> tuple[str, ...]:
    by = f"registered by {plain(row['created_by'])}" if row.get("created_by") else ""
    if row.get("created_by") and row["id"] != row["server_id"]:
        by += f" as {plain(row['id'])}"
    if row.get("decided_by"):
        by += f", denied by {plain(row['decided_by'])}" + (f": {plain(row['reason'])}" if row.get("reason") else "")
    return bold(plain(row["server_id"])), row["status"], row["trust_level"], counted(len(row["tools"]), "tool"), by
