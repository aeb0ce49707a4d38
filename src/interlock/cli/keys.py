"""`interlock keys`: creates, lists and revokes keys. A key is shown once and stored only as a hash."""

from __future__ import annotations

import click

from .hub_link import ask_hub
from .options import instant, rate
from .show import bold, columns, json_option, plain, say, show_json


@click.group()
def keys() -> None:
    """Create, list and revoke keys of agents and people.

    \b
    Example:
      interlock keys create ci --kind service
    """


@keys.command()
@click.argument("agent")
@click.option("--kind", type=click.Choice(["agent", "person", "service", "admin"]), default="agent", show_default=True)
@click.option("--profile", metavar="NAME", help="The profile whose tools this key sees.")
@click.option("--expires", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time.")
@click.option("--rate", metavar="RATE", callback=rate, help="Limit of calls: 60/minute, or 60/minute,1000/hour.")
@click.option("--permit", metavar="PERMISSION", multiple=True, help="invoke:PATTERN, read:PATTERN, list_all, …")
@json_option
def create(
    agent: str,
    kind: str,
    profile: str | None,
    expires: str | None,
    rate: dict[str, int] | None,
    permit: tuple[str, ...],
    as_json: bool,
) -> None:
    """Create a key. It is shown only once.

    \b
    Example:
      interlock keys create nightly --profile work
    """
    chosen = {"profile": profile, "expires_at": expires, "rate": rate, "permissions": list(permit) or None}
    params = {"agent": agent, "kind": kind, **{name: value for name, value in chosen.items() if value}}
    made = ask_hub("hub/keys.create", params)
    if as_json:
        show_json(made)
        return
    say(str(made["key"]))
    say("  → the key is shown only now; use it as INTERLOCK_KEY or `Authorization: Bearer …`", err=True)


@keys.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List all keys, without their secrets.

    \b
    Example:
      interlock keys list
    """
    found = ask_hub("hub/keys.list", {})
    if as_json:
        show_json(found)
        return
    listed = found.get("keys") or []
    for line in columns(
        (
            bold(plain(_name(key.get("principal")))),
            str(key.get("kind") or ""),
            str(key.get("profile") or "all tools"),
            str(key.get("prefix") or "") + "…",
            str(key.get("created") or ""),
            f"until {key['expires_at']}" if key.get("expires_at") else "",
            f"used {key['last_used']}" if key.get("last_used") else "",
        )
        for key in listed
    ):
        say(line)
    if not listed:
        say("No keys. → create one: `interlock keys create NAME`, or `interlock connect CLIENT`")


@keys.command()
@click.argument("agent")
@json_option
def revoke(agent: str, as_json: bool) -> None:
    """Revoke every key of an agent, at once.

    \b
    Example:
      interlock keys revoke nightly
    """
    revoked = ask_hub("hub/keys.revoke", {"agent": agent})
    if as_json:
        show_json(revoked)
    else:
        say(f"Revoked {revoked.get('revoked', 0)} keys of {plain(agent)}.")


@keys.command()
@click.argument("agent")
@json_option
def rotate(agent: str, as_json: bool) -> None:
    """Create a new key for an agent and revoke its old ones at once.

    \b
    Example:
      interlock keys rotate nightly
    """
    made = ask_hub("hub/keys.rotate", {"agent": agent})
    if as_json:
        show_json(made)
        return
    say(str(made["key"]))
    say("  → the key is shown only now; the old keys are revoked", err=True)


def _name(principal: object) -> str:
    return str(principal.get("id")) if isinstance(principal, dict) else str(principal)
