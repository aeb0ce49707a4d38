"""`interlock keys`: creates, lists and revokes keys. A key is shown once and stored only as a hash."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.perform import Json, performs, say_rows
from interlock.cli.terminal.options import EXPIRES, rate
from interlock.cli.terminal.show import bold, counted, plain, say


@click.group()
def keys() -> None:
    """Create, list and revoke keys of agents and people.

    \b
    Example:
      interlock keys create ci --kind service
    """


@keys.command()
@performs("keys.create")
@click.argument("agent")
@click.option("--kind", type=click.Choice(["agent", "person", "service", "admin"]), default="agent", show_default=True)
@click.option("--profile", metavar="NAME", help="The profile whose tools this key sees.")
@EXPIRES
@click.option("--rate", metavar="RATE", callback=rate, help="Limit of calls: 60/minute, or 60/minute,1000/hour.")
@click.option(
    "--permit", "permissions", metavar="PERMISSION", multiple=True, help="invoke:PATTERN, read:PATTERN, list_all, …"
)
def create(made: Json, **given: Any) -> None:
    """Create a key. It is shown only once. One of a person or an administrator needs a terminal.

    \b
    Example:
      interlock keys create nightly --profile work
    """
    say(made["key"])
    say("  → the key is shown only now; use it as INTERLOCK_KEY or `Authorization: Bearer …`", err=True)
    for permission in made.get("matches_nothing") or []:
        say(f"  ! {plain(permission)} matches no tool that the hub knows now", err=True)


@keys.command("list")
@performs("keys.list")
def list_(found: Json) -> None:
    """List all keys, without their secrets.

    \b
    Example:
      interlock keys list
    """
    none = "No keys. → create one: `interlock keys create NAME`, or `interlock connect CLIENT`"
    say_rows(found["keys"], _row, none)


@keys.command()
@performs("keys.revoke")
@click.argument("agent")
def revoke(done: Json, agent: str) -> None:
    """Revoke every key of an agent, at once.

    \b
    Example:
      interlock keys revoke nightly
    """
    say(f"Revoked {counted(done['revoked'], 'key')} of {plain(agent)}.")


@keys.command()
@performs("keys.rotate")
@click.argument("agent")
@click.option("--profile", metavar="NAME", help="Another profile; without it, the key keeps its own.")
def rotate(made: Json, **given: Any) -> None:
    """Create a new key for an agent and revoke its old ones at once. That of a person needs a terminal.

    \b
    Example:
      interlock keys rotate nightly
    """
    say(made["key"])
    say("  → the key is shown only now; the old keys are revoked", err=True)


def _row(key: Json) -> tuple[str, ...]:
    return (
        bold(plain(key["principal"])),
        key["kind"],
        plain(_reach(key)),
        ", ".join(f"{count}/{unit.removeprefix('per_')}" for unit, count in (key.get("rate") or {}).items() if count),
        key["prefix"] + "…",
        key["created"],
        f"until {key['expires_at']}" if key.get("expires_at") else "",
        f"used {key['last_used']}" if key.get("last_used") else "",
    )


def _reach(key: Json) -> str:
    """The rights of a key: its profile, and its permissions where it names any."""
    permissions = key.get("permissions")
    within = f"profile {key['profile']}" if key.get("profile") else ""
    if permissions is None:
        return within or "all tools"
    named = ", ".join(permissions) or "nothing"
    return f"{named} in {within}" if within else named
