"""`interlock secrets rekey`: seals tokens and secrets with another key, or goes on after the key was lost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interlock.cli.terminal.failures import CommandFailure, CommandRefused, WrongUsage
from interlock.cli.terminal.show import counted, is_attended, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.settings import Config
    from interlock.hub.admin.rekeying import Rekeyed


@click.command()
@click.option("--lost", is_flag=True, help="The old key is lost: delete what only it opens.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to use.")
@json_option
def rekey(lost: bool, yes: bool, config: Path | None, as_json: bool) -> None:
    """Seal tokens and secrets with another key, while no hub runs.

    Without `sealing_key` in [hub], a new key takes the place of the hub's own, and everything is sealed with it. After
    you changed `sealing_key`, everything is sealed with the new one; the old one is asked for, or read from standard
    input, in base64. Keys of agents stay valid. Either everything is sealed anew or nothing, also if the power fails.

    If the old key is lost, `--lost` deletes the logins, conversations and open approval requests that only it opens,
    after a backup, and prints how to replace them.

    \b
    Examples:
      interlock secrets rekey
      interlock secrets rekey < old-key.txt
      interlock secrets rekey --lost
    """
    from interlock.cli.control.starting import no_hub, own_configuration
    from interlock.config.home import home_folder
    from interlock.config.hub_secret import BadHubSecret
    from interlock.hub.admin.rekeying import finish_rekeying, sealed_elsewhere
    from interlock.store import StoreError

    home = home_folder()
    with no_hub(home):
        try:
            loaded = own_configuration(config, home)
            finish_rekeying(loaded, home)
            problem = sealed_elsewhere(loaded, home)
            done = _give_up(loaded, home, problem, yes) if lost else _seal(loaded, home, problem)
        except BadHubSecret as cause:
            raise CommandFailure(cause.message, cause.hint) from None
        except StoreError as cause:
            raise CommandFailure(cause.for_operators, cause.hint) from None
        except OSError as cause:
            raise CommandFailure(f"{home}: {cause.strerror or cause}", "see that you can write this folder") from None
    _show(done, as_json)


def _seal(config: Config, home: Path, problem: str) -> Rekeyed:
    import asyncio

    from interlock.config.home import user_name
    from interlock.hub.admin.rekeying import home_key_of_store, reseal, rotate
    from interlock.hub.auth.principals import local_person

    by = local_person(user_name())
    if problem:
        return asyncio.run(reseal(config, home, by, home_key_of_store(config, home) or _old_key(problem)))
    if config.hub.sealing_key is not None:
        hint = "give `sealing_key` another key first (`openssl rand -base64 32` makes one), and keep the old one"
        raise WrongUsage("everything is sealed with this `sealing_key` already", hint)
    return asyncio.run(rotate(config, home, by))


def _give_up(config: Config, home: Path, problem: str, yes: bool) -> Rekeyed:
    import asyncio

    from interlock.config.home import user_name
    from interlock.hub.admin.rekeying import give_up
    from interlock.hub.auth.principals import local_person

    if not problem:
        raise WrongUsage("the key is not lost: it opens the store", "`interlock secrets rekey` replaces it")
    if not yes:
        if not is_attended():
            raise CommandRefused("giving up the old key needs a confirmation", "run it in a terminal, or with --yes")
        click.confirm(f"{problem}. Delete what only the lost key opens?", abort=True, err=True)
    return asyncio.run(give_up(config, home, local_person(user_name())))


def _old_key(problem: str) -> bytes:
    from interlock.config.hub_secret import BadHubSecret, configured_secret

    if is_attended():
        say(plain(f"{problem}."), err=True)
        text = click.prompt("The old key (`base64 < keys.secret` prints a copy's)", hide_input=True, err=True)
    else:
        text = sys.stdin.read()
    if not text.strip():
        raise CommandRefused(
            f"{problem}, and no old key was given", "if it is lost, run `interlock secrets rekey --lost`"
        )
    try:
        return configured_secret(text)
    except BadHubSecret as cause:
        raise WrongUsage(cause.message.replace("`sealing_key`", "the old key"), "nothing was changed") from None


def _show(done: Rekeyed, as_json: bool) -> None:
    import msgspec

    if as_json:
        show_json(msgspec.to_builtins(done))
        return
    if done.saved:
        say(f"The hub goes on without the lost key.\n  backup of the data before: {plain(done.saved)}")
    else:
        values = counted(done.sealed, "value"), counted(done.secrets, "secret")
        say(f"Sealed {' and '.join(values)} with the new key.")
    if done.lost_values:
        say(f"  {counted(done.lost_values, 'value')} deleted: conversations, open approval requests, room histories")
    for server, principal in done.lost_logins:
        say(f"  → log in again: `interlock login {plain(server)}{f' --for {plain(principal)}' if principal else ''}`")
    for name in done.lost_secrets:
        say(f"  → store it again: `interlock secrets rotate {plain(name)}`")
    for name in done.lost_keys:
        say(f"  → its key is not recognized any more: `interlock keys rotate {plain(name)}`")
    if done.sealed or done.secrets:
        say("  → copy the new key to a safe place; backups made before still need the old one", err=True)
