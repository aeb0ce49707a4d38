"""`interlock grants`: which agent may use which server and tool. A tool's entry overrides its server's; deny wins."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.perform import Json, perform, performs
from interlock.cli.terminal.options import EXPIRES
from interlock.cli.terminal.show import bold, json_option, plain, say, say_table, show_json


@click.group()
def grants() -> None:
    """Allow or deny agents the use of servers and tools.

    An entry for a tool overrides one for its server, which overrides the server's `access` setting. Deny wins.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """


@grants.command("list")
@performs("grants.list")
@click.argument("agent", required=False)
def list_(found: Json, agent: str | None) -> None:
    """List the grants of all agents or of one.

    \b
    Example:
      interlock grants list cursor
    """
    listed = found["grants"]
    say_table(_row(grant) for grant in listed)
    if not listed:
        say("No grants: each server's `access` setting decides. → `interlock grants deny AGENT SERVER [TOOL]`")
    elif found["total"] > len(listed):
        say(f"… and {found['total'] - len(listed)} more; name an agent to see its grants.")


def _command(function: Any) -> Any:
    """The arguments of a change: the agent, the server, and the tool if it is about one."""
    for name, required in (("tool_name", False), ("server_id", True), ("agent_id", True)):
        function = click.argument(name, metavar=name.partition("_")[0].upper(), required=required)(function)
    return grants.command()(json_option(function))


def _grant_command(function: Any) -> Any:
    because = click.option("--because", "justification", metavar="TEXT", help="The reason, stored with the grant.")
    return _command(EXPIRES(because(function)))


@_grant_command
def allow(as_json: bool, **place: Any) -> None:
    """Allow an agent to use a server, or one of its tools by the server's own name. Needs a terminal.

    \b
    Example:
      interlock grants allow cursor github create_issue --expires 8h
    """
    _grant("allow", place, as_json)


@_grant_command
def deny(as_json: bool, **place: Any) -> None:
    """Deny an agent the use of a server, or of one of its tools.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """
    _grant("deny", place, as_json)


@_command
def revoke(as_json: bool, **place: Any) -> None:
    """Remove grants and denials, from the next call on. To end a denial, it needs a terminal.

    \b
    Example:
      interlock grants revoke cursor github delete_repo
    """
    done = perform("grants.revoke", _typed(place))
    if as_json:
        show_json(done)
    else:
        say(f"Revoked {done['revoked']} {'entry' if done['revoked'] == 1 else 'entries'}.")
        if not done["revoked"]:
            agent, target = plain(place["agent_id"]), plain(place["tool_name"] or "all tools")
            say(f"  → none is for {target} of {plain(place['server_id'])}: `interlock grants list {agent}`", err=True)


def _grant(permission: str, place: Json, as_json: bool) -> None:
    done = perform("grants.grant", {**_typed(place), "permission": permission})
    if as_json:
        show_json(done)
        return
    target = " ".join(filter(None, (place["server_id"], place["tool_name"])))
    say(f"{plain(place['agent_id'])}: {permission} {plain(target)}.")
    agent = place["agent_id"]
    if not (agent == "local" or agent.startswith("server:") or _has_key(agent)):
        say(f"  → no key of {plain(agent)} exists yet: `interlock keys create {plain(agent)}` makes one", err=True)
    if done["effective"] != permission:
        hint = f"`interlock grants revoke {place['agent_id']} {target}` removes both"
        say(f"  → the agent still has `{done['effective']}`, by {done['source']}; {hint}", err=True)


def _has_key(agent: str) -> bool:
    return any(key["principal"] == agent for key in perform("keys.list", {})["keys"])


def _typed(place: Json) -> Json:
    return {"entry_type": "tool_grant" if place["tool_name"] else "server_grant", **place}


def _row(grant: Json) -> tuple[str, ...]:
    until = f"until {grant['expires_at']}" if grant.get("expires_at") else ""
    return (
        bold(plain(grant["agent_id"])),
        grant["permission"],
        plain(grant["server_id"]),
        plain(grant.get("tool_name") or "all tools"),
        f"by {plain(grant.get('granted_by') or '?')}",
        "expired" if grant["expired"] else until,
        plain(grant.get("justification") or ""),
    )
