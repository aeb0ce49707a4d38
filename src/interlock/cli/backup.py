"""`interlock backup` and `interlock restore`: everything the hub keeps, in one file, and back again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import click

from .failures import Failure, Refused, WrongConfiguration
from .show import coloured, is_attended, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config import Config

STOP_WITHIN_S = 10.0
CONFIG = click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to use.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@CONFIG
@json_option
def backup(file: Path, config: Path | None, as_json: bool) -> None:
    """Write everything the hub keeps to FILE.

    Keys (as hashes), grants, rules, decisions, pins and the whole record, as of one moment, from SQLite or
    PostgreSQL. A hub that runs goes on working. The secret that keys are hashed with is not in it: it is
    the file `keys.secret` in the hub's home.

    \b
    Example:
      interlock backup monday.backup
    """
    from interlock.config.home import home_folder
    from interlock.store import StoreError

    from .starting import is_running

    home, file = home_folder(), file.absolute()
    running = is_running(home)
    if running:
        from .tools import ask_hub

        ask_hub("hub/backup", {"file": str(file)}, timeout=600)
    else:
        from interlock.hub.admin.backups import back_up

        try:
            back_up(_configured(config, home), home, file)
        except StoreError as cause:
            raise Failure(cause.message, cause.hint) from None
    size = file.stat().st_size
    if as_json:
        show_json({"file": str(file), "bytes": size, "running": running})
    else:
        say(f"{size:,} bytes in {plain(str(file))}")
        say(f"  → its keys also need {plain(str(home / 'keys.secret'))}; keep a copy of that apart", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@CONFIG
@json_option
def restore(file: Path, yes: bool, config: Path | None, as_json: bool) -> None:
    """Put a backup back. Only while no hub runs.

    Keys, grants, rules, decisions and pins become those of FILE; records are added where they are missing,
    and never removed. What was there before is backed up first. Approvals that were not used hold no longer.

    \b
    Example:
      interlock restore monday.backup
    """
    import asyncio

    from interlock.config.home import home_folder, user_name
    from interlock.hub.admin.backups import put_back
    from interlock.hub.auth.principals import local_person
    from interlock.store import StoreError

    home = home_folder()
    loaded = _configured(config, home)
    if not yes:
        if not is_attended():
            raise Refused("nobody was there to confirm it", "repeat it in a terminal, or with --yes")
        click.confirm(f"Put {file} back over what the hub keeps now?", abort=True, err=True)
    with _no_hub(home):
        try:
            done = asyncio.run(put_back(loaded, home, file.absolute(), local_person(user_name())))
        except StoreError as cause:
            raise Failure(cause.message, cause.hint) from None
        except OSError as cause:
            raise Failure(f"{file}: {cause.strerror}", "name a file made by `interlock backup`") from None
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(done))
    else:
        say(f"{done.records:,} records; the chain is {'sound' if done.sound else coloured('not sound', 'red')}")
        if done.saved:
            say(f"  what was there before is in {plain(done.saved)}")
        if done.missing:
            say(f"  {done.missing} records that were written here are not in the backup; that is recorded")
        if done.keys_back:
            say(f"  → {done.keys_back} keys hold again that were revoked since: look at `interlock keys list`")
        if not (home / "keys.secret").exists():
            say(f"  → no key of the backup can be used without its {plain(str(home / 'keys.secret'))}")
        for finding in done.findings:
            say(f"  {plain(finding)}")
    if not done.sound:
        raise Failure("the record is not as it was written", "use another backup, or find out what happened to it")


def _configured(config: Path | None, home: Path) -> Config:
    from interlock.config import load

    loaded = load(config, home=home, folder=Path.cwd())
    if not loaded.usable:
        first = next(problem for problem in loaded.problems if problem.fatal)
        raise WrongConfiguration(f"the configuration cannot be used: {first.message}", first.hint)
    return loaded.config


@contextlib.contextmanager
def _no_hub(home: Path) -> Iterator[None]:
    """Hold the lock that a hub of this user would hold."""
    from interlock.config.files import try_lock
    from interlock.config.home import lock_path

    from .starting import is_running

    path = lock_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        deadline = monotonic() + STOP_WITHIN_S
        while not try_lock(lock.fileno()):
            # One that was just told to stop holds it for a moment longer than it answers.
            if is_running(home) or monotonic() > deadline:
                raise Refused("the hub is running", "stop it first with `interlock down`")
            sleep(0.05)
        yield
