"""`interlock keys`: who may call. A key is shown once and kept only as a hash."""

from __future__ import annotations

from typing import Any

import click

from .show import bold, columns, json_option, plain, say, show_json


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of agents and people.

    \b
    Example:
      interlock keys create ci --kind service
    """


@keys.command()
@click.argument("agent")
@click.option("--kind", type=click.Choice(["agent", "person", "service"]), default="agent", show_default=True)
@click.option("--profile", metavar="NAME", help="The tools that this key sees.")
@json_option
def create(agent: str, kind: str, profile: str | None, as_json: bool) -> None:
    """Make a key. It is shown this once.

    \b
    Example:
      interlock keys create nightly --profile work
    """
    made = _ask("hub/keys.create", {"agent": agent, "kind": kind, **({"profile": profile} if profile else {})})
    if as_json:
        show_json(made)
        return
    say(str(made["key"]))
    say("  → this is shown only now; hand it over as INTERLOCK_KEY or `Authorization: Bearer …`", err=True)


@keys.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the keys there are, without the keys themselves.

    \b
    Example:
      interlock keys list
    """
    found = _ask("hub/keys.list", {})
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
        )
        for key in listed
    ):
        say(line)
    if not listed:
        say("No keys. → make one: `interlock keys create NAME`, or `interlock connect CLIENT`")


@keys.command()
@click.argument("agent")
@json_option
def revoke(agent: str, as_json: bool) -> None:
    """Revoke every key of an agent, at once.

    \b
    Example:
      interlock keys revoke nightly
    """
    revoked = _ask("hub/keys.revoke", {"agent": agent})
    if as_json:
        show_json(revoked)
    else:
        say(f"{revoked.get('revoked', 0)} keys of {plain(agent)} revoked.")


def _name(principal: object) -> str:
    return str(principal.get("id")) if isinstance(principal, dict) else str(principal)


def _ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    with HubLink.open(home_folder()) as link:
        return link.ask(method, params)
