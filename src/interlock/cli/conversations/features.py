"""`interlock features`, `events` and `usage`: what servers may start by themselves, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from interlock.cli.control.perform import BECAUSE, Json, performs, say_rows
from interlock.cli.terminal.show import bold, coloured, counted, plain, say, say_table

STATES = {"waiting": "yellow", "delivered": "green", "dropped": "red"}


@click.group()
def features() -> None:
    """Let servers send events by themselves, per server and agent.

    Everything is off until you enable it. A server declares feature sets, such as `memory.proactive`. A pattern names
    several: `memory.*`. Where one pattern enables a feature set and another disables it, it is off.

    \b
    Example:
      interlock features enable calendar "reminders.*" --agent claude-code
    """


@features.command("list")
@performs("features.list")
@click.argument("server", required=False)
def list_(found: Json, server: str | None) -> None:
    """List the feature sets of servers, and for which agents each is on.

    \b
    Example:
      interlock features list calendar
    """
    _show(found["features"])
    if not found["features"]:
        say("No server declares a feature set.")
    elif not any(row["agents"] for row in found["features"]):
        say("  → enable one for an agent: `interlock features enable SERVER FEATURE --agent NAME`", err=True)


_SERVER = click.argument("server")
_NAMES = click.argument("features", metavar="FEATURE...", nargs=-1, required=True)
_AGENT = click.option("--agent", required=True, metavar="NAME", help="The agent that it is for.")


@features.command()
@performs("features.enable", person="enable feature sets")
@_SERVER
@_NAMES
@_AGENT
@BECAUSE
def enable(done: Json, **params: Any) -> None:
    """Let a server use feature sets for an agent. Needs a terminal.

    \b
    Example:
      interlock features enable calendar reminders --agent claude-code
    """
    _show(done["features"])
    if done.get("hint"):
        say(f"  → {plain(done['hint'])}", err=True)


@features.command()
@performs("features.disable")
@_SERVER
@_NAMES
@_AGENT
@BECAUSE
def disable(done: Json, **params: Any) -> None:
    """Switch feature sets off for an agent. Events that wait for it are deleted.

    \b
    Example:
      interlock features disable calendar "*" --agent claude-code
    """
    _show(done["features"])


@features.command()
@performs("features.forget", person="forget patterns of feature sets")
@_SERVER
@_NAMES
@_AGENT
@BECAUSE
def forget(done: Json, **params: Any) -> None:
    """Delete patterns that you enabled or disabled for an agent. Needs a terminal.

    A feature set that no other pattern enables is off. One that another pattern enables is on again.

    \b
    Example:
      interlock features forget calendar "*" --agent claude-code
    """
    _show(done["features"])


@click.command()
@performs("events.list")
@click.option("--agent", metavar="NAME", help="Only the events of this agent.")
@click.option("--server", metavar="ID", help="Only the events of this server.")
@click.option("--most", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to list.")
def events(found: Json, **params: Any) -> None:
    """List events that servers pushed, and what became of them.

    An event waits, was delivered, was held or was dropped; the list says why.

    \b
    Example:
      interlock events --agent claude-code
    """
    whose = f" for {plain(params['agent'])}" if params["agent"] else ""
    say_rows(found["events"], _event, f"There are no events{whose}.")
    for server, count in sorted(found["refused"].items()):
        say(f"{bold(plain(server))}: {counted(count, 'message')} refused; `interlock audit` has the reasons")


@click.command()
@performs("usage", "usage")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="How many days to count.")
@click.option(
    "--by",
    type=click.Choice(["server", "feature_set", "agent", "conversation"]),
    help="One row for each of these; else for each combination of them.",
)
def usage(rows: list[Json], **params: Any) -> None:
    """Count the events, inferences, tokens and cost of servers and conversations.

    Costs follow from the prices in [models.NAME].

    \b
    Example:
      interlock usage --days 1 --by server
    """
    say_rows(rows, _usage, "There were no events and no inferences.")


def _show(rows: list[Json]) -> None:
    say_table(_feature(row) for row in rows)


def _feature(row: Json) -> tuple[str, ...]:
    from interlock.protocols.mcpl.reason_words import in_words

    agents = ", ".join(plain(agent) for agent in row["agents"])
    state = coloured(f"on for {agents}", "green") if row["on"] else f"off ({plain(in_words(row['why']))})"
    if row.get("lacks"):
        state += coloured(f", but it replaces no answers without {plain(row['lacks'])}", "yellow")
    for agent, patterns in sorted(row["disabled"].items()):
        state += f"; disabled for {plain(agent)} by {', '.join(plain(each) for each in sorted(patterns))}"
    return bold(plain(row["server"])), plain(row["feature"]), state, plain(row["description"])


def _event(row: Json) -> tuple[str, ...]:
    from interlock.protocols.mcpl.reason_words import in_words

    at = datetime.fromtimestamp(row["at"]).astimezone().strftime("%m-%d %H:%M:%S")
    state = coloured(row["state"], STATES[row["state"]])
    what = f"{plain(row['server'])} {plain(row['feature_set'])}"
    cause = plain(in_words(row["cause"]))
    return at, bold(plain(row["agent"])), state, plain(row["outcome"]), what, plain(row["event"]), cause


def _usage(row: Json) -> tuple[str, ...]:
    named = [plain(row[name]) for name in ("server", "feature_set", "agent", "conversation")]
    counts = []
    if row["events"]:
        counts.append(
            f"{counted(row['events'], 'event')}, {counted(row['wakes'], 'wake')}, about {row['tokens']} tokens"
        )
        counts.append(f"{row['held']} held, {row['dropped']} dropped")
    if row["inferences"]:
        tokens = f"{row['input_tokens']} tokens in, {row['output_tokens']} out"
        counts.append(f"{counted(row['inferences'], 'inference')}, {tokens}")
        counts += [f"{row['failed']} failed"] if row["failed"] else []
        counts += [f"{row['claimed']} by a client's own count"] if row["claimed"] else []
        counts.append(f"cost {row['cost']:.4f}")
    # A conversation of the hub's own belongs to no server.
    return bold(named[0] or "(the hub)"), *(name or "-" for name in named[1:]), "; ".join(counts)
