"""Contained servers at the terminal: the options of `interlock add --sandbox`, and `interlock install`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interlock.cli.control.completion import server_names
from interlock.cli.terminal.failures import Failure, NoHub, WrongConfiguration, WrongUsage
from interlock.cli.terminal.show import json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config import Server
    from interlock.config.settings import Sandbox
    from interlock.containment.installs import Install

ANSWER_S = 900.0
"""How long the hub may take to install a registered server."""


@click.command()
@click.argument("name", shell_complete=server_names)
@click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml that has the server.")
@json_option
def install(name: str, config: Path | None, as_json: bool) -> None:
    """Install the packages of a contained server.

    A contained server cannot fetch packages. This fetches those that its `npx` or `uvx` command names into a folder of
    that server, without running their install scripts, and records their digest. Run it again to update them. A server
    that was registered with `interlock discovery register` is installed by the running hub.

    \b
    Example:
      interlock install files
    """
    from interlock.config import home_folder, load

    loaded = load(config, home=home_folder(), folder=Path.cwd())
    server = loaded.config.servers.get(name)
    if server is None:
        outcome = _install_registered(name, [*loaded.config.servers])
    else:
        record = install_packages(name, server)
        if record is None:
            raise WrongUsage(f"`{name}` needs no install step", "only contained servers with an npx or uvx command do")
        outcome = {"installed": name, "package": record.package, "digest": record.digest, "folder": record.folder}
    if as_json:
        show_json(outcome)
        return
    say(f"Installed {plain(outcome['package'])} for `{plain(outcome['installed'])}`, digest {outcome['digest'][:16]}…")
    say(f"Restart it to use the new files: interlock restart {plain(outcome['installed'])}")


def _install_registered(name: str, configured: list[str]) -> dict[str, str]:
    """Let the running hub install a server that the configuration does not have. Raises Failure."""
    from interlock.cli.control.hub_link import HubError
    from interlock.cli.control.perform import perform

    known = f"servers there: {', '.join(configured) or 'none'}"
    try:
        found = perform("discovery.install", {"id": name}, ANSWER_S)
    except NoHub as error:
        hint = f"{known}. Those of `interlock discovery register` need a running hub: `interlock up -d`"
        raise WrongConfiguration(f"there is no server `{name}` in the configuration", hint) from error
    except HubError as error:
        if error.name != "NOT_FOUND":
            raise
        hint = f"{known}; `interlock discovery` also shows those of `interlock discovery register`"
        raise WrongConfiguration(f"there is no server `{name}`", hint) from error
    return {"installed": found["server_id"], **{key: found[key] for key in ("package", "digest", "folder")}}


def install_packages(name: str, server: Server) -> Install | None:
    """Run the install step of a server; None if it has none. Raises Failure."""
    from interlock.config import home_folder
    from interlock.containment import installs
    from interlock.containment.policy import ContainmentRefused
    from interlock.hub.upstreams.contained_servers import containment_of

    containment = containment_of(name, server, home_folder())
    if containment is None:
        return None
    try:
        if installs.wanted(server.command) is None:
            return None
        return installs.install(Path(containment.folder), server.command, dict(os.environ))
    except ContainmentRefused as refused:
        raise Failure(refused.message, refused.hint) from refused


def check_folders(name: str, server: Server) -> None:
    """Refuse folders that a contained server could never be given. Raises WrongUsage."""
    from interlock.config import home_folder
    from interlock.containment.plan import named_folders
    from interlock.containment.policy import ContainmentRefused
    from interlock.hub.upstreams.contained_servers import containment_of

    containment = containment_of(name, server, home_folder())
    try:
        if containment is not None:
            named_folders(containment)
    except ContainmentRefused as refused:
        raise WrongUsage(refused.message, refused.hint) from refused


def sandbox_settings(
    sandbox: bool, is_url: bool, read: tuple[str, ...], write: tuple[str, ...], hosts: tuple[str, ...]
) -> Sandbox:
    """The settings of `--sandbox` and its options. Raises WrongUsage where they do not fit together."""
    from interlock.config.settings import Sandbox

    if not sandbox and (read or write or hosts):
        raise WrongUsage("--read, --write and --host need --sandbox", "add --sandbox")
    if sandbox and is_url:
        raise WrongUsage("only a program can run contained, not a URL", "remove --sandbox")
    return Sandbox(read=tuple(map(_absolute, read)), write=tuple(map(_absolute, write)), hosts=hosts)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
