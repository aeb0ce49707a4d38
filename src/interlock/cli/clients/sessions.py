"""`interlock sessions`: the clients of the hub, and how one of them is ended."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.perform import Json, perform, performs, say_rows
from interlock.cli.terminal.show import bold, counted, json_option, one_line, plain, say, say_table, show_json

_AGENT = click.option("--agent", metavar="NAME", help="Only the sessions of this agent.")


@click.group(invoke_without_command=True)
@_AGENT
@json_option
@click.pass_context
def sessions(ctx: click.Context, agent: str | None, as_json: bool) -> None:
    """List and end the sessions of clients.

    Without a command, it lists them. Clients of revision 2026-07-28 have no sessions: for these it lists who was seen
    lately, with their open calls and streams.

    \b
    Example:
      interlock sessions
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, agent=agent, as_json=as_json)


@sessions.command("list")
@_AGENT
@json_option
def list_(agent: str | None, as_json: bool) -> None:
    """List sessions, and who was seen lately.

    \b
    Example:
      interlock sessions list --agent cursor
    """
    found = perform("sessions.list", {"agent": agent})
    if as_json:
        show_json(found)
        return
    say_rows(found["sessions"], _session, "No sessions are open.")
    if found["principals"]:
        say("Seen lately:")
        say_table(_principal(row) for row in found["principals"])


@sessions.command()
@performs("sessions.end")
@click.argument("id")
def end(ended: Json, id: str) -> None:
    """End a session, or everything that a principal such as agent:NAME has open.

    \b
    Example:
      interlock sessions end agent:nightly
    """
    sessions, streams = counted(ended["sessions"], "session"), counted(ended["streams"], "stream")
    say(f"Ended {sessions}, {streams} and {counted(ended['calls'], 'call')} of {plain(id)}.")


def _session(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        bold(plain(str(row.get("id")))),
        plain(str(row.get("agent"))),
        _client(row),
        str(row.get("revision")),
        str(row.get("transport")),
        f"since {_minute(row.get('since'))}",
        counted(int(row.get("calls") or 0), "call"),
        counted(int(row.get("streams") or 0), "stream"),
        counted(int(row.get("subscriptions") or 0), "subscription"),
    )


def _principal(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        "  " + bold(plain(str(row.get("id")))),
        _client(row),
        str(row.get("revision")),
        f"last seen {_minute(row.get('last_seen'))}",
        counted(int(row.get("calls") or 0), "call"),
        counted(int(row.get("streams") or 0), "stream"),
    )


def _client(row: dict[str, Any]) -> str:
    return one_line(f"{row.get('client') or 'unnamed client'} {row.get('version') or ''}".strip(), 40)


def _minute(instant: object) -> str:
    return str(instant or "")[:16].replace("T", " ")
