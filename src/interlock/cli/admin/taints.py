"""`interlock taints`: agents that were given results of untrusted servers, and how a person ends that."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from interlock.cli.control.perform import BECAUSE, Json, performs, say_rows
from interlock.cli.terminal.show import bold, json_option, plain, say


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def taints(ctx: click.Context, as_json: bool) -> None:
    """List agents whose tools ask because of untrusted results, and end that.

    A profile with `taint = "ask"` asks a person before tools that write, send or spend, once the agent was given a
    result of a server that is not `trusted`. Without a command, it lists tainted agents.

    \b
    Example:
      interlock taints clear cursor
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@taints.command("list")
@performs("taints.list")
def list_(found: Json) -> None:
    """List tainted agents, with the calls that their context holds text of.

    \b
    Example:
      interlock taints list
    """
    say_rows(found["taints"], _row, "No agent is tainted.")


@taints.command()
@performs("taints.clear", person="clear taints")
@click.argument("agent")
@BECAUSE
def clear(cleared: Json, agent: str, **given: Any) -> None:
    """End the taint of an agent, for example after it began a new conversation. Needs a terminal.

    \b
    Example:
      interlock taints clear cursor --because "new conversation"
    """
    say(f"The tools of {bold(plain(cleared['agent']))} no longer ask because of earlier results.")


def _row(row: Json) -> tuple[str, ...]:
    sources = ", ".join(plain(f"{source['server']} {source['name']}") for source in row["sources"])
    ends = row["until"] and datetime.fromisoformat(row["until"]).astimezone().strftime("%m-%d %H:%M")
    until = f"until {ends}" if ends else "its entry cannot be read, so it does not end by itself"
    where = "asks" if row["asks"] else "asks in profiles with taint"
    return bold(plain(row["agent"])), row["kind"], where, until, sources
