"""`interlock permissions`: lists and changes the permissions of servers. A change applies from the next call on."""

from __future__ import annotations

from typing import Any

import click

from .approvals import RISKS, need_person
from .hub_link import ask_hub
from .options import instant
from .show import as_dict, bold, coloured, json_option, plain, say, say_table, show_json

GRANTS = {"approved": "green", "denied": "red", "deferred": "yellow"}


@click.group()
def permissions() -> None:
    """Approve or deny what servers may do on this machine.

    A server declares the permissions it needs, such as `shell.execute`. Tools without a permission that they
    need are neither listed nor called.

    \b
    Example:
      interlock permissions approve files filesystem.read --expires 30d
    """


@permissions.command("list")
@click.argument("server", required=False)
@json_option
def list_(server: str | None, as_json: bool) -> None:
    """List the permissions that servers need, and whether they are granted.

    \b
    Example:
      interlock permissions list files
    """
    found = ask_hub("hub/permissions.list", {"server": server} if server else {})
    if as_json:
        show_json(found)
        return
    rows = [as_dict(row) for row in found.get("permissions") or []]
    _show(rows)
    if not rows:
        say("No server needs a permission.")


@permissions.command()
@click.argument("server")
@click.argument("names", metavar="PERMISSION...", nargs=-1, required=True)
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--because", metavar="TEXT", default="", help="The reason, stored with the decision.")
@json_option
def approve(server: str, names: tuple[str, ...], expires: str | None, because: str, as_json: bool) -> None:
    """Grant a server permissions, until they are revoked or expire. Needs a terminal.

    \b
    Example:
      interlock permissions approve files filesystem.read
    """
    need_person()
    _change("approve", server, names, as_json, because=because, expires_at=expires, terminal=True)


@permissions.command()
@click.argument("server")
@click.argument("names", metavar="PERMISSION...", nargs=-1, required=True)
@click.option("--because", metavar="TEXT", default="", help="The reason, stored with the decision.")
@json_option
def deny(server: str, names: tuple[str, ...], because: str, as_json: bool) -> None:
    """Deny a server permissions.

    \b
    Example:
      interlock permissions deny files network
    """
    _change("deny", server, names, as_json, because=because)


@permissions.command()
@click.argument("server")
@click.argument("names", metavar="PERMISSION...", nargs=-1, required=True)
@click.option("--because", metavar="TEXT", default="", help="The reason, stored with the decision.")
@json_option
def revoke(server: str, names: tuple[str, ...], because: str, as_json: bool) -> None:
    """Revoke permissions of a server, from the next call on.

    \b
    Example:
      interlock permissions revoke files filesystem.read
    """
    _change("revoke", server, names, as_json, because=because)


def _change(verb: str, server: str, names: tuple[str, ...], as_json: bool, **more: Any) -> None:
    done = ask_hub(f"hub/permissions.{verb}", {"server": server, "permissions": list(names), **more})
    if as_json:
        show_json(done)
        return
    rows = [as_dict(row) for row in done.get("permissions") or []]
    _show(rows)
    wanted = "approved" if verb == "approve" else "denied"
    for row in rows:
        if row.get("grant") != wanted:
            say(f"  → {plain(str(row.get('permission')))} did not change: {plain(str(row.get('rule')))}", err=True)


def _show(rows: list[dict[str, Any]]) -> None:
    say_table(_row(row) for row in rows)
    for row in rows:
        if row.get("decision"):
            say(f"  → {plain(str(row['permission']))}: `interlock approvals approve {plain(str(row['decision']))}`")


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    grant, risk = str(row.get("grant")), str(row.get("risk"))
    tools = [plain(str(tool)) for tool in row.get("tools") or []]
    return (
        bold(plain(str(row.get("server")))),
        plain(str(row.get("permission"))),
        coloured(risk, RISKS[risk]) if risk in RISKS else "-",
        coloured(grant, GRANTS[grant]) if grant in GRANTS else plain(grant),
        plain(str(row.get("rule") or "")),
        f"until {plain(str(row['expires_at']))}" if row.get("expires_at") else "",
        f"for {', '.join(tools[:3])}{', …' if len(tools) > 3 else ''}" if tools else "",
    )
