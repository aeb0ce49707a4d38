"""`interlock grants`: which agent may use which server and tool. A tool's entry goes before its server's; deny wins."""

from __future__ import annotations

from typing import Any

import click

from .asking import ask, instant
from .show import bold, columns, json_option, plain, say, show_json


@click.group()
def grants() -> None:
    """Allow and deny agents servers and tools.

    An entry for a tool goes before one for its server, and that before the server's `access` setting. Deny wins.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """


@grants.command("list")
@click.argument("agent", required=False)
@json_option
def list_(agent: str | None, as_json: bool) -> None:
    """List what was granted and denied, to all or to one agent.

    \b
    Example:
      interlock grants list cursor
    """
    found = ask("hub/grants.list", {"agent": agent} if agent else {})
    if as_json:
        show_json(found)
        return
    listed = found.get("grants") or []
    for line in columns(_row(grant) for grant in listed):
        say(line)
    if not listed:
        say("No grants: each server's `access` setting decides. → `interlock grants deny AGENT SERVER [TOOL]`")
    elif found.get("total", 0) > len(listed):
        say(f"… and {found['total'] - len(listed)} more; name an agent to see its own.")


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--because", metavar="TEXT", default="", help="The reason, kept with it.")
@json_option
def allow(agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool) -> None:
    """Allow an agent a server, or one tool of it by the server's own name for it.

    \b
    Example:
      interlock grants allow cursor github create_issue --expires 8h
    """
    _give("allow", agent, server, tool, expires, because, as_json)


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--because", metavar="TEXT", default="", help="The reason, kept with it.")
@json_option
def deny(agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool) -> None:
    """Deny an agent a server, or one tool of it.

    \b
    Example:
      interlock grants deny cursor github delete_repo
    """
    _give("deny", agent, server, tool, expires, because, as_json)


@grants.command()
@click.argument("agent")
@click.argument("server")
@click.argument("tool", required=False)
@json_option
def revoke(agent: str, server: str, tool: str | None, as_json: bool) -> None:
    """Take back what was allowed or denied, from the next call on.

    \b
    Example:
      interlock grants revoke cursor github delete_repo
    """
    done = ask("hub/grants.revoke", _place(agent, server, tool))
    if as_json:
        show_json(done)
    else:
        say(f"{done.get('revoked', 0)} entries revoked.")


def _give(
    permission: str, agent: str, server: str, tool: str | None, expires: str | None, because: str, as_json: bool
) -> None:
    asked = {**_place(agent, server, tool), "permission": permission, "justification": because, "expires_at": expires}
    done = ask("hub/grants.grant", asked)
    if as_json:
        show_json(done)
        return
    what = plain(f"{server} {tool}" if tool else server)
    say(f"{plain(agent)}: {permission} {what}.")
    if done.get("effective") != permission:
        hint = f"`interlock grants revoke {agent} {server}{' ' + tool if tool else ''}` takes back both"
        say(f"  → {done.get('effective')} still holds, by {done.get('source')}; {hint}", err=True)


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
