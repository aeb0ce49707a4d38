"""`interlock secrets`: values for `${secret:NAME}` in `interlock.toml`, kept encrypted in the hub's home."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from interlock.cli.servers.rekey import rekey
from interlock.cli.servers.servers import config_file, reload_hub
from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import is_attended, json_option, plain, say, show_json, show_outcome

if TYPE_CHECKING:
    from interlock.config.secret_store import SecretStore


@click.group()
def secrets() -> None:
    """Keep passwords and tokens for servers, encrypted.

    Write `${secret:NAME}` in your own `interlock.toml` where the value belongs.

    \b
    Example:
      interlock secrets set github-token
    """


@secrets.command("set")
@click.argument("name")
@json_option
def set_(name: str, as_json: bool) -> None:
    """Store a secret. The value is asked for, or read from standard input.

    \b
    Example:
      interlock secrets set github-token < token.txt
    """
    store = _store()
    if name in store.names():
        raise WrongUsage(f"there is a secret `{name}` already", f"write `interlock secrets rotate {name}`")
    _put(store, name, as_json)


@secrets.command()
@click.argument("name")
@json_option
def rotate(name: str, as_json: bool) -> None:
    """Replace a secret. A running hub restarts the servers that use it.

    \b
    Example:
      interlock secrets rotate github-token
    """
    store = _store()
    if name not in store.names():
        raise WrongUsage(f"there is no secret `{name}`", f"write `interlock secrets set {name}`")
    _put(store, name, as_json)


@secrets.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the names of all secrets, never their values.

    \b
    Example:
      interlock secrets list
    """
    from interlock.config.hub_secret import BadHubSecret

    store = _store()
    names = store.names()
    if as_json:
        show_json(names)
        return
    try:
        unopened, lost = (store.unopened() if names else []), None
    except BadHubSecret as cause:
        unopened, lost = names, cause
    for name in names:
        again = "" if lost else f"  → store it again: `interlock secrets rotate {plain(name)}`"
        say(f"{plain(name)}  cannot be opened with this hub's key{again}" if name in unopened else plain(name))
    if lost is not None:
        raise CommandFailure(lost.message, lost.hint)
    if not names:
        say("No secrets. → store one: `interlock secrets set NAME`")


@secrets.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Delete a secret.

    \b
    Example:
      interlock secrets remove github-token
    """
    if not _store().remove(name):
        raise WrongUsage(f"there is no secret `{name}`", "`interlock secrets list` shows all")
    show_outcome({"removed": name, **reload_hub(config_file(None))}, f"Removed {plain(name)}.", as_json)


@secrets.command()
@click.argument("place", type=click.Choice(["keyring", "file"]), required=False)
@json_option
def key(place: str | None, as_json: bool) -> None:
    """Show where the key is that seals tokens and secrets, or move it.

    PLACE is `keyring`, the keyring of this system (Secret Service, KWallet, macOS Keychain, Windows Credential Locker),
    or `file`, a file of mode 0600 in the hub's home. A running hub continues to work. If `sealing_key` is set in [hub],
    that key seals tokens, and the one in PLACE only the values of `interlock secrets`.

    \b
    Example:
      interlock secrets key keyring
    """
    from pathlib import Path

    from interlock.config.home import home_folder
    from interlock.config.hub_secret import FILE, BadHubSecret, hub_secret, keyring_entry, move_to_file, move_to_keyring
    from interlock.config.load import load

    home = home_folder()
    try:
        if place == "keyring":
            move_to_keyring(home)
        elif place == "file":
            move_to_file(home)
        hub_secret(home)
        entry = keyring_entry(home)
    except BadHubSecret as cause:
        raise CommandFailure(cause.message, cause.hint) from None
    except OSError as cause:
        raise CommandFailure(f"{home}: {cause.strerror or cause}", "see that you can write this folder") from None
    outcome = {
        "place": "file" if entry is None else "keyring",
        "in": str(home / FILE) if entry is None else entry.backend,
    }
    config = load(home=home, folder=Path.cwd()).config
    if config.hub.sealing_key is None:
        show_outcome(outcome, f"The key is in {plain(outcome['in'])}.", as_json)
        return
    text = f"The key for tokens is `sealing_key` of {plain(str(config.origin.path))}; for secrets, in "
    outcome["tokens"] = str(config.origin.path)
    show_outcome(outcome, f"{text}{plain(outcome['in'])}.", as_json)


secrets.add_command(rekey)


def _store() -> SecretStore:
    from interlock.config.home import home_folder
    from interlock.config.secret_store import SecretStore

    return SecretStore(home_folder())


def _put(store: SecretStore, name: str, as_json: bool) -> None:
    from interlock.config.hub_secret import BadHubSecret

    if is_attended():
        value = click.prompt(f"Value of {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().rstrip("\r\n")
    try:
        store.put(name, value)
    except ValueError as cause:
        raise WrongUsage(str(cause), "nothing was stored") from None
    except BadHubSecret as cause:
        raise CommandFailure(cause.message, cause.hint) from None
    show_outcome(
        {"stored": name, **reload_hub(config_file(None))},
        f"Stored {plain(name)}. → write ${{secret:{plain(name)}}}",
        as_json,
    )
