"""Contained servers at the terminal: the options of `interlock add --sandbox`, and `interlock install`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interlock.cli.control.completion import server_names
from interlock.cli.terminal.failures import CommandFailure, NoHub, WrongConfiguration, WrongUsage
from interlock.cli.terminal.show import json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.settings import SandboxSettings, ServerSettings
    from interlock.containment.installs import ServerInstall

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
    from interlock.config.home import home_folder
    from interlock.config.load import load

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
    """Let the running hub install a server that the configuration does not have. Raises CommandFailure."""
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


def install_packages(name: str, server: ServerSettings) -> ServerInstall | None:
    """Run the install step of a server; None if it has none. Raises CommandFailure."""
    from interlock.config.home import home_folder
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
        raise CommandFailure(refused.message, refused.hint) from refused


def check_folders(name: str, server: ServerSettings) -> None:
    """Refuse folders that a contained server could never be given. Raises WrongUsage."""
    from interlock.config.home import home_folder
    from interlock.containment.plan import named_folders
    from interlock.containment.policy import ContainmentRefused
    from interlock.hub.upstreams.contained_servers import containment_of

    containment = containment_of(name, server, home_folder())
    try:
        if containment is not None:
            named_folders(containment)
    except ContainmentRefused as refused:
        raise WrongUsage(refused.message, refused.hint) from refused


def start_contained_once(name: str, server: ServerSettings) -> list[str]:
    """Start a contained server once, and return its tools. Raises CommandFailure with the option that would help."""
    from interlock.cli.writing.authoring import START_TIMEOUT_S, list_tools_once
    from interlock.config.home import home_folder
    from interlock.hub.upstreams.contained_servers import containment_of, option_for
    from interlock.wire.errors import Fault

    containment = containment_of(name, server, home_folder())
    try:
        return list_tools_once(server.command, variables_of(server), server.cwd, containment)
    except TimeoutError:
        message = f"did not answer within {START_TIMEOUT_S:g} s"
        hint = "without `--host HOST` it reaches no network: does it wait for one?"
    except Fault as fault:
        message = f"does not start contained: {fault.for_operators}"
        hint = option_for(fault.for_operators) or fault.hint or "does it start without --sandbox?"
    raise CommandFailure(f"`{name}` {message}", f"{hint}. It was not added")


def variables_of(server: ServerSettings) -> dict[str, str]:
    """The variables of a server's program, filled in as the hub would."""
    from interlock.config.expand import all_variables, expand

    return {name: expand(value, all_variables(os.environ)).text for name, value in server.env.items()}


def folders_named_in(arguments: tuple[str, ...], given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders among the arguments that a contained server is to read, and those that nobody gets just because a
    command names them: homes, their hidden folders, and the hub's own. Without those that are given already."""
    from interlock.config.home import home_folder

    home, hub = Path.home().resolve(), home_folder().resolve()
    known = [Path(_absolute(path)).resolve() for path in given]
    found: dict[str, bool] = {}
    for argument in arguments:
        named = argument.partition("=")[2] if argument.startswith("-") else argument
        path = Path(_absolute(named)).resolve()
        if not named or not path.is_dir() or any(path.is_relative_to(each) for each in known):
            continue
        hidden = path.is_relative_to(home) and any(part.startswith(".") for part in path.relative_to(home).parts)
        holds = any(each.is_relative_to(path) for each in (home, hub))
        found[str(path)] = hidden or holds or path.is_relative_to(hub)
    return tuple(each for each in found if not found[each]), tuple(each for each in found if found[each])


def sandbox_settings(
    sandbox: bool, is_url: bool, read: tuple[str, ...], write: tuple[str, ...], hosts: tuple[str, ...]
) -> SandboxSettings:
    """The settings of `--sandbox` and its options. Raises WrongUsage where they do not fit together."""
    from interlock.config.settings import SandboxSettings

    if not sandbox and (read or write or hosts):
        raise WrongUsage("--read, --write and --host need --sandbox", "add --sandbox")
    if sandbox and is_url:
        raise WrongUsage("only a program can run contained, not a URL", "remove --sandbox")
    return SandboxSettings(read=tuple(map(_absolute, read)), write=tuple(map(_absolute, write)), hosts=hosts)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
