"""`interlock permissions`: lists and changes the permissions of servers. A change applies from the next call on."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.admin.approvals import RISKS
from interlock.cli.control.perform import BECAUSE, Json, performs
from interlock.cli.terminal.options import EXPIRES
from interlock.cli.terminal.show import bold, coloured, plain, say, say_table

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
@performs("permissions.list")
@click.argument("server", required=False)
def list_(found: Json, server: str | None) -> None:
    """List the permissions that servers need, and whether they are granted.

    \b
    Example:
      interlock permissions list files
    """
    _show(found["permissions"])
    if not found["permissions"]:
        say("No server needs a permission.")


_SERVER = click.argument("server")
_NAMES = click.argument("permissions", metavar="PERMISSION...", nargs=-1, required=True)


@permissions.command()
@performs("permissions.approve", person="approve permissions")
@_SERVER
@_NAMES
@EXPIRES
@BECAUSE
def approve(done: Json, **given: Any) -> None:
    """Grant a server permissions, until they are revoked or expire. Needs a terminal.

    \b
    Example:
      interlock permissions approve files filesystem.read
    """
    _changed(done, "approved")


@permissions.command()
@performs("permissions.deny")
@_SERVER
@_NAMES
@BECAUSE
def deny(done: Json, **given: Any) -> None:
    """Deny a server permissions.

    \b
    Example:
      interlock permissions deny files network
    """
    _changed(done, "denied")


@permissions.command()
@performs("permissions.revoke")
@_SERVER
@_NAMES
@BECAUSE
def revoke(done: Json, **given: Any) -> None:
    """Revoke permissions of a server, from the next call on.

    \b
    Example:
      interlock permissions revoke files filesystem.read
    """
    _changed(done, "denied")


def _changed(done: Json, wanted: str) -> None:
    _show(done["permissions"])
    for row in done["permissions"]:
        if row["grant"] != wanted:
            say(f"  → {plain(row['permission'])} did not change: {plain(row['rule'])}", err=True)


def _show(rows: list[Json]) -> None:
    say_table(_row(row) for row in rows)
    for row in rows:
        if row["decision"]:
            say(f"  → {plain(row['permission'])}: `interlock approvals approve {plain(row['decision'])}`")


def _row(row: Json) -> tuple[str, ...]:
    grant, risk = row["grant"], row["risk"]
    tools = [plain(tool) for tool in row["tools"]]
    return (
        bold(plain(row["server"])),
        plain(row["permission"]),
        coloured(risk, RISKS[risk]) if risk in RISKS else "-",
        coloured(grant, GRANTS[grant]) if grant in GRANTS else plain(grant),
        plain(row["rule"]),
        f"until {row['expires_at']}" if row["expires_at"] else "",
        f"for {', '.join(tools[:3])}{', …' if len(tools) > 3 else ''}" if tools else "",
    )
