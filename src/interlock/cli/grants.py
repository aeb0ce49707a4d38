"""`interlock grants`: which agent may use which server and tool. A tool's entry overrides its server's; deny wins."""

from __future__ import annotations

from typing import Any

import click

from .hub_link import ask_hub
from .options import instant
from .show import bold, json_option, plain, say, say_table, show_json


@click.group()
def grants() -> None:
    """Allow or deny agents the use of servers and tools.

    An entry for a tool overrides one for its server, which overrides the server's `access` setting. Deny wins.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """


@grants.command("list")
@click.argument("agent", required=False)
@json_option
def list_(agent: str | None, as_json: bool) -> None:
    """List the grants of all agents or of one.

    \b
    Example:
      interlock grants list cursor
    """
    found = ask_hub("hub/grants.list", {"agent": agent} if agent else {})
    if as_json:
        show_json(found)
        return
    listed = found.get("grants") or []
    say_table(_row(grant) for grant in listed)
    if not listed:
        say("No grants: each server's `access` setting decides. → `interlock grants deny AGENT SERVER [TOOL]`")
    elif found.get("total", 0) > len(listed):
        say(f"… and {found['total'] - len(listed)} more; name an agent to see its grants.")


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--because", metavar="TEXT", default="", help="The reason, stored with the grant.")
@json_option
def allow(agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool) -> None:
    """Allow an agent to use a server, or one of its tools by the server's own name.

    \b
    Example:
      interlock grants allow cursor github create_issue --expires 8h
    """
    _grant("allow", agent, server, tool, expires, because, as_json)


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--because", metavar="TEXT", default="", help="The reason, stored with the grant.")
@json_option
def deny(agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool) -> None:
    """Deny an agent the use of a server, or of one of its tools.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """
    _grant("deny", agent, server, tool, expires, because, as_json)


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@json_option
def revoke(agent: str, server: str, tool: str | None, as_json: bool) -> None:
    """Remove grants and denials, from the next call on.

    \b
    Example:
      interlock grants revoke cursor github delete_repo
    """
    done = ask_hub("hub/grants.revoke", _place(agent, server, tool))
    if as_json:
        show_json(done)
    else:
        say(f"Revoked {done.get('revoked', 0)} entries.")


def _grant(
    permission: str, agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool
) -> None:
    params = {**_place(agent, server, tool), "permission": permission, "justification": because, "expires_at": expires}
    done = ask_hub("hub/grants.grant", params)
    if as_json:
        show_json(done)
        return
    say(f"{plain(agent)}: {permission} {plain(f'{server} {tool}' if tool else server)}.")
    if done.get("effective") != permission:
        hint = f"`interlock grants revoke {agent} {server}{' ' + tool if tool else ''}` removes both"
        say(f"  → the agent still has `{done.get('effective')}`, by {done.get('source')}; {hint}", err=True)


def _place(agent: str, server: str, tool: str | None) -> dict[str, Any]:
    kind = "server_grant" if tool is None else "tool_grant"
    return {"entry_type": kind, "agent_id": agent, "server_id": server, **({"tool_name": tool} if tool else {})}


def _row(grant: dict[str, Any]) -> tuple[str, ...]:
    until = f"until {grant['expires_at']}" if grant.get("expires_at") else ""
    return (
        bold(plain(str(grant.get("agent_id")))),
        str(grant.get("permission")),
        plain(str(grant.get("server_id"))),
        plain(str(grant.get("tool_name") or "all tools")),
        f"by {plain(str(grant.get('granted_by') or '?'))}",
        "expired" if grant.get("expired") else until,
        plain(str(grant.get("justification") or "")),
    )
