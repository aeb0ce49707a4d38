"""`interlock health`: the health of the hub and its servers."""

from __future__ import annotations

import json

import click

from interlock.cli.control.completion import server_names
from interlock.cli.control.perform import Json, perform
from interlock.cli.terminal.show import bold, coloured, counted, json_option, one_line, plain, say, say_table, show_json

COLOURS = {"healthy": "green", "idle": "green", "starting": "yellow", "stopped": "yellow", "degraded": "yellow"}


@click.command()
@click.argument("server", required=False, shell_complete=server_names)
@json_option
@click.pass_context
def health(ctx: click.Context, server: str | None, as_json: bool) -> None:
    """Show the health of the hub and its servers.

    A server is healthy, degraded or unhealthy by its own word, by whether it answers, and by how its last calls ended.
    With SERVER the hub asks it now. Ends with 1 if a server is unhealthy or down, or the hub refuses calls.

    \b
    Example:
      interlock health github
    """
    found = perform("health", {"server": server})
    if as_json:
        show_json(found)
    else:
        _show(found, server)
    if found["reason"] or any(row["health"] not in COLOURS for row in found["servers"]):
        ctx.exit(1)


def _show(found: Json, server: str | None) -> None:
    if found["reason"]:
        say(coloured(f"The hub refuses every call: {plain(found['reason'])}", "red"))
    say_table(_cells(row) for row in found["servers"])
    for row in found["servers"]:
        if server is not None and row.get("details"):
            say(one_line(json.dumps(row["details"]), 2000))
    well = sum(row["health"] in ("healthy", "idle") for row in found["servers"])
    count = len(found["servers"])
    say(f"{well} of {counted(count, 'server')} healthy." if count else "No servers yet.")


def _cells(row: Json) -> tuple[str, ...]:
    word = plain(row["health"])
    took = "" if row.get("answer_ms") is None else f"{row['answer_ms']:.0f} ms"
    calls = f"{row['calls_failed']} of {row['calls']} calls failed" if row["calls"] else ""
    return (
        bold(plain(row["server"])),
        coloured(word, COLOURS.get(word, "red")),
        took,
        calls,
        one_line("; ".join(row["reasons"]), 160),
    )
