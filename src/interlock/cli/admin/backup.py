"""`interlock backup` and `interlock restore`: save all data of the hub to one file, and restore it."""

from __future__ import annotations

from pathlib import Path

import click

from interlock.cli.terminal.failures import CommandFailure, CommandRefused, WrongUsage
from interlock.cli.terminal.show import coloured, is_attended, json_option, plain, say, show_json

CONFIG = click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to use.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@CONFIG
@json_option
def backup(file: Path, force: bool, config: Path | None, as_json: bool) -> None:
    """Write all data of the hub to FILE.

    The backup is a snapshot of keys (as hashes), grants, rules, decisions, pins and the audit log, from SQLite or
    PostgreSQL. A running hub continues to work. The backup does not contain the secret for the hashes of keys, which
    is the file `keys.secret` in the hub's home or, if it is set, `sealing_key`.

    \b
    Example:
      interlock backup monday.backup
    """
    from interlock.cli.control.starting import is_running, own_configuration
    from interlock.config.home import home_folder
    from interlock.store import StoreError

    home, file = home_folder(), file.absolute()
    if not file.parent.is_dir():
        raise WrongUsage(f"there is no folder {file.parent}", "create it first, or choose another path")
    if file.exists() and not force:
        raise WrongUsage(f"{file} exists already", "choose another name, or replace it with --force")
    running = is_running(home)
    if running:
        from interlock.cli.control.perform import perform

        perform("backup", {"file": str(file)}, timeout=600)
    else:
        from interlock.hub.admin.backups import back_up

        try:
            back_up(own_configuration(config, home), home, file)
        except StoreError as cause:
            raise CommandFailure(cause.for_operators, cause.hint) from None
    size = file.stat().st_size
    if as_json:
        show_json({"file": str(file), "bytes": size, "running": running})
    else:
        say(f"{size:,} bytes in {plain(str(file))}")
        say(f"  → its keys also need {_sealing_key(config, home)}", err=True)


def _sealing_key(config: Path | None, home: Path) -> str:
    """The key that a backup does not contain, and how to keep it."""
    from interlock.config.load import load

    loaded = load(config, home=home, folder=Path.cwd()).config
    if loaded.hub.sealing_key is not None:
        return f"`sealing_key` of {plain(str(loaded.origin.path))}; keep a copy of that key elsewhere"
    secret = plain(str(home / "keys.secret"))
    if (home / "keys.keyring").exists():
        return f"the key in your keyring: `interlock secrets key file` writes {secret}"
    return f"{secret}; keep a copy of that file elsewhere"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@CONFIG
@json_option
def restore(file: Path, yes: bool, config: Path | None, as_json: bool) -> None:
    """Restore a backup, while no hub runs.

    Keys, grants, rules, decisions and pins are replaced by those of FILE. Missing audit log entries are added; none is
    removed. The current data is backed up first. Approvals that were not used become invalid.

    \b
    Example:
      interlock restore monday.backup
    """
    import asyncio

    from interlock.cli.control.starting import no_hub, own_configuration
    from interlock.config.home import home_folder, user_name
    from interlock.config.hub_secret import has_secret
    from interlock.hub.admin.backups import put_back
    from interlock.hub.auth.principals import local_person
    from interlock.store import StoreError

    home = home_folder()
    loaded = own_configuration(config, home)
    if not yes:
        if not is_attended():
            raise CommandRefused("restoring needs a confirmation", "run it in a terminal, or with --yes")
        click.confirm(f"Replace the current data of the hub with {file}?", abort=True, err=True)
    with no_hub(home):
        try:
            done = asyncio.run(put_back(loaded, home, file.absolute(), local_person(user_name())))
        except StoreError as cause:
            raise CommandFailure(cause.for_operators, cause.hint) from None
        except OSError as cause:
            raise CommandFailure(f"{file}: {cause.strerror}", "choose a file made by `interlock backup`") from None
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(done))
    else:
        say(
            f"{done.records:,} audit log entries; the chain is {'intact' if done.sound else coloured('altered', 'red')}"
        )
        if done.saved:
            say(f"  backup of the previous data: {plain(done.saved)}")
        if done.missing:
            say(f"  {done.missing} audit log entries are not in the backup; the audit log notes this")
        if done.keys_back:
            say(f"  → {done.keys_back} keys that were revoked since are valid again; check `interlock keys list`")
        if loaded.hub.sealing_key is None and not has_secret(home):
            say(f"  → the keys of the backup need their {plain(str(home / 'keys.secret'))}")
        for finding in done.findings:
            say(f"  {plain(finding)}")
    if not done.sound:
        raise CommandFailure("the audit log was altered", "use another backup, or find out what happened to it")
