"""`interlock connect`: creates a key for a client and adds the hub to the client's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.clients.clients import (
    ENTRY,
    NAMES,
    AgentClient,
    client,
    executable,
    is_in_cache,
    member_at,
    with_entry,
    without_entries,
)
from interlock.cli.terminal.failures import CommandFailure, CommandRefused, NoHub, WrongUsage
from interlock.cli.terminal.options import OneOf
from interlock.cli.terminal.show import json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.cli.control.hub_link import HubLink


@click.command()
@click.argument(
    "name", metavar="CLIENT", type=OneOf(NAMES, {"claude": "claude-code", "code": "vscode", "vs-code": "vscode"})
)
@click.option("--print", "only_print", is_flag=True, help="Print the configuration instead of writing it.")
@click.option("--undo", is_flag=True, help="Remove the entry and revoke its key.")
@click.option("--profile", metavar="NAME", help="The profile whose tools it sees; without it, that of its old key.")
@click.option(
    "--live", is_flag=True, help="Claude Code only: events and context with each prompt; servers may hear its answers."
)
@json_option
def connect(name: str, only_print: bool, undo: bool, profile: str | None, live: bool, as_json: bool) -> None:
    """Add the hub to a client's configuration, with its own key.

    The rest of the client's file does not change, and a copy of the old file is kept beside it. If no hub runs, one is
    started. `interlock setup` does this for all your clients, and imports their servers. `--live` adds hooks to
    Claude Code's settings, which `--undo` removes too, and checks with a test notification that the running hub reaches
    a client over `interlock stdio`; it ends with 1 if none arrives.

    \b
    Example:
      interlock connect cursor --profile work
    """
    if only_print and undo:
        raise click.UsageError("Use either --print or --undo, not both.")
    if live and (name != "claude-code" or only_print):
        raise click.UsageError("--live writes hooks for claude-code; no other client has such hooks.")
    chosen = client(name)
    if name == "claude-code" and not only_print:
        _check_hook(wanted=live and not undo)
    outcome = _undo(name, chosen) if undo else _connect(name, chosen, profile, only_print=only_print)
    if name == "claude-code" and not only_print:
        outcome["hook"] = _set_hook(wanted=live and not undo)
    if live and not undo:
        outcome["delivery"] = _checked_delivery(name, outcome["entry"])
    if as_json:
        show_json(outcome)
    elif only_print:
        say(str(outcome["text"]))
        if outcome.get("new_key"):
            say(f"  → it has a new key, valid until `interlock keys revoke {name}`", err=True)
    elif undo:
        say(f"{chosen.title} is no longer connected." if outcome["changed"] else f"{chosen.title} was not connected.")
    else:
        say(f"{chosen.title} is connected: {plain(str(chosen.path))}")
        if outcome["backup"]:
            say(f"  copy of the old file: {plain(str(outcome['backup']))}")
        if live:
            from interlock.cli.clients.client_hooks import CHANNEL

            say(f"  hooks for its prompts and answers: {plain(str(outcome['hook']))}")
            if outcome["delivery"]["verified"]:
                took = f"{outcome['delivery']['took_ms']:.0f} ms"
                say(f"  delivery verified: a test notification came through `interlock stdio` in {took}")
            if not outcome["delivery"].get("declared"):
                enabling = "interlock features enable SERVER FEATURE --agent claude-code"
                say(f"  → nothing is enabled for it yet: `{enabling}`")
            say(f"  → to be woken between prompts, start it with `{CHANNEL}`")
        if is_in_cache(executable()[0]):
            say(
                "  → interlock runs from a cache that may be cleared; install it with `uv tool install interlock`",
                err=True,
            )
        say(f"  → {chosen.after} To undo: `interlock connect {name} --undo`.")
        if outcome["others"]:
            others = ", ".join(plain(other) for other in outcome["others"])
            say(f"  → {chosen.title} also starts {others} itself; `interlock setup` moves them into the hub")
    delivery = outcome.get("delivery")
    if delivery is not None and not delivery["verified"]:
        problem = f"{chosen.title} is connected, but no test notification reached it: {delivery['problem']}"
        raise CommandFailure(problem, delivery["hint"])


def _connect(name: str, chosen: AgentClient, profile: str | None, *, only_print: bool) -> dict[str, Any]:
    from interlock.cli.control.starting import is_running, reach_hub
    from interlock.config.files import back_up, check_writable, locked_for_change, write_atomically
    from interlock.config.home import home_folder

    command = executable()
    # Check the file before the old key is revoked and a new one is created.
    with_entry(chosen, _read(chosen.path), chosen.entry(command, ""))
    if not only_print:
        check_writable(chosen.path)
    if only_print and (entry := existing_entry(chosen)):
        if profile is not None:
            message = f"{chosen.title} is connected, and --print shows its entry with the key and profile that it has"
            raise WrongUsage(message, f"change the profile first: interlock connect {name} --profile {profile}")
        outcome = {"client": name, "path": str(chosen.path), "entry": entry}
        return {**outcome, "text": with_entry(chosen, "", entry).rstrip()}
    if only_print and not is_running(home_folder()):
        say("No hub runs, so one is started: the key is its own.", err=True)
    with reach_hub(home_folder()) as link:
        if only_print:
            entry = chosen.entry(command, made_key(link, name, profile))
            outcome = {"client": name, "path": str(chosen.path), "entry": entry}
            return {**outcome, "new_key": True, "text": with_entry(chosen, "", entry).rstrip()}
        # Key and file change under one lock: of several commands at once, the last one's key is valid and in the file.
        with locked_for_change(chosen.path):
            entry = chosen.entry(command, new_key(link, name, profile))
            changed = with_entry(chosen, _read(chosen.path), entry)
            backup = back_up(chosen.path)
            write_atomically(chosen.path, changed.encode(), private=True)
    outcome = {"client": name, "path": str(chosen.path), "entry": entry}
    others = [other for other in _servers(chosen) if other != ENTRY]
    return {**outcome, "backup": str(backup) if backup else None, "others": others}


def _check_hook(*, wanted: bool) -> None:
    """Raise CommandFailure where `_set_hook` would, before the entry and its key change."""
    from interlock.cli.clients.client_hooks import settings_file, with_hook, without_hook
    from interlock.config.files import check_writable

    path = settings_file().path
    if wanted or path.exists():
        text = _read(path)
        _ = with_hook(text, executable()) if wanted else without_hook(text)
        check_writable(path)


def _set_hook(*, wanted: bool) -> str | None:
    """Add our hooks to Claude Code's settings, or remove them. Returns the file if it has them now."""
    from interlock.cli.clients.client_hooks import settings_file, with_hook, without_hook
    from interlock.config.files import back_up, locked_for_change, write_atomically

    path = settings_file().path
    if not wanted and not path.exists():
        return None
    with locked_for_change(path):
        text = _read(path)
        changed = with_hook(text, executable()) if wanted else without_hook(text)
        if changed != text:
            back_up(path)
            write_atomically(path, changed.encode())
    return str(path) if wanted else None


def _checked_delivery(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Whether a test notification of the running hub comes through the client's entry, and why not."""
    from interlock.cli.clients.channel_check import check_channel
    from interlock.cli.control.hub_link import HubLink

    try:
        with HubLink.open() as link:
            return check_channel(link, name, entry)
    except CommandFailure as failure:
        return {"verified": False, "problem": failure.message, "hint": failure.hint}


def existing_entry(chosen: AgentClient) -> dict[str, object] | None:
    """Our entry in the client's file. Its key is still valid, so printing it needs no new one."""
    found = _servers(chosen).get(ENTRY)
    return found if isinstance(found, dict) else None


def _servers(chosen: AgentClient) -> dict[str, Any]:
    """The servers in the client's file; none if it cannot be parsed."""
    found = member_at(chosen, _read(chosen.path), chosen.at)
    return found if isinstance(found, dict) else {}


def _undo(name: str, chosen: AgentClient) -> dict[str, Any]:
    from interlock.cli.control.hub_link import HubLink

    changed, backup = disconnect(chosen)
    revoked = None
    try:
        with HubLink.open() as link:
            revoked = revoke_keys(link, name)
    except NoHub:
        say(f"interlock: no hub is running, so the key of {name} stays valid", err=True)
        say(f"  → run `interlock up -d`, then `interlock keys revoke {name}`", err=True)
    return {
        "client": name,
        "path": str(chosen.path),
        "entry": ENTRY,
        "changed": changed,
        "backup": str(backup) if backup else None,
        "revoked": revoked,
    }


def disconnect(chosen: AgentClient) -> tuple[bool, Path | None]:
    """Remove our entry from the client's file. Returns whether there was one, and the copy of the old file."""
    from interlock.config.files import back_up, locked_for_change, write_atomically

    if not chosen.path.exists():
        return False, None
    with locked_for_change(chosen.path):
        text = _read(chosen.path)
        changed = without_entries(chosen, text, [(*chosen.at, ENTRY)]) if text else text
        if changed == text:
            return False, None
        backup = back_up(chosen.path)
        write_atomically(chosen.path, changed.encode())
    return True, backup


def new_key(link: HubLink, name: str, profile: str | None = None) -> str:
    """A new key for a client, in the place of all its old ones, whose profile it keeps unless another is named.

    If the hub refuses it, the old keys stay valid. A key that can approve calls never gets into a client's file.
    """
    from interlock.cli.control.hub_link import HubError

    kinds = {str(row["kind"]) for row in link.ask("hub/keys.list")["keys"] if row["principal"] == name}
    if others := sorted(kinds - {"agent"}):
        hint = f"revoke it with `interlock keys revoke {name}`, then run this again"
        raise CommandRefused(f"`{name}` has a key of the kind `{others[0]}`; a client gets only that of an agent", hint)
    named = {"profile": profile} if profile else {}
    try:
        return str(link.ask("hub/keys.rotate", {"agent": name, **named})["key"])
    except HubError as error:
        if error.name != "NOT_FOUND":
            raise
    return made_key(link, name, profile)


def made_key(link: HubLink, name: str, profile: str | None = None) -> str:
    """A further key for a client."""
    named = {"profile": profile} if profile else {}
    return str(link.ask("hub/keys.create", {"agent": name, "kind": "agent", **named})["key"])


def has_valid_key(link: HubLink, name: str, entry: dict[str, object] | None) -> bool:
    """Whether the hub knows the key in a client's entry as a valid one of this client."""
    from datetime import UTC, datetime

    tables = [table for table in (entry or {}).values() if isinstance(table, dict)]
    key = next((str(table["INTERLOCK_KEY"]) for table in tables if "INTERLOCK_KEY" in table), "")
    return any(
        row["principal"] == name
        and key.startswith(row["prefix"])
        and (row.get("expires_at") is None or datetime.fromisoformat(row["expires_at"]) > datetime.now(UTC))
        for row in link.ask("hub/keys.list")["keys"]
    )


def revoke_keys(link: HubLink, name: str) -> object:
    """Revoke the keys of a client, if it has any."""
    from interlock.cli.control.hub_link import HubError

    try:
        return link.ask("hub/keys.revoke", {"agent": name}).get("revoked")
    except HubError as error:
        if error.name != "NOT_FOUND":
            raise
        return 0


def _read(path: Path) -> str:
    from interlock.config.files import read_exactly

    try:
        return read_exactly(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailure(
            f"{path} cannot be read: {error}", "check its permissions and encoding; it was not changed"
        ) from error
