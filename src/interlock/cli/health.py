"""`interlock health`: the health of the hub and its servers."""

from __future__ import annotations

import json

import click

from .completion import server_names
from .perform import Json, performs
from .show import bold, coloured, one_line, plain, say, say_table

COLOURS = {"healthy": "green", "idle": "green", "degraded": "yellow"}


@click.command()
@performs("health")
@click.argument("server", required=False, shell_complete=server_names)
def health(found: Json, server: str | None) -> None:
    """Show the health of the hub and its servers.

    A server is healthy, degraded or unhealthy by its own word, by whether it answers, and by how its last calls ended.
    With SERVER the hub asks it now.

    \b
    Example:
      interlock health github
    """
    if found["reason"]:
        say(coloured(f"The hub refuses every call: {plain(found['reason'])}", "red"))
    say_table(_cells(row) for row in found["servers"])
    for row in found["servers"]:
        if server is not None and row.get("details"):
            say(one_line(json.dumps(row["details"]), 2000))
    if not found["servers"]:
        say("No servers yet.")


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
