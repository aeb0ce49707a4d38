"""`interlock add` and `remove`: change the servers in the user's own `interlock.toml`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.control.completion import server_names
from interlock.cli.terminal.failures import CommandFailure, NoHub, WrongConfiguration, WrongUsage
from interlock.cli.terminal.show import as_dict, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.settings import ServerSettings

config_option = click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to change.")


class _AddCommand(click.Command):
    """Tells a program's own option from one of ours: the command of a server stands behind `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            split = self._start_of_command(given, error.option_name)
            if split is None:
                raise
            words = shlex.join([*given[:split], "--", *given[split:]])
            message = f"`interlock add` has no option {error.option_name}"
            raise WrongUsage(message, f"write `--` before the command: interlock add {words}") from None

    def _start_of_command(self, given: list[str], option: str) -> int | None:
        """Where the words before an option of a program begin; None where no program is named."""
        found = next((at for at, word in enumerate(given) if word.startswith(option)), 0)
        at = found
        while at > 1 and not given[at - 1].startswith("-"):
            at -= 1
        with_value = {name for each in self.params if not getattr(each, "is_flag", True) for name in each.opts}
        at += at > 0 and given[at - 1] in with_value
        return None if "--" in given or not 0 < at < found else at


@click.command(cls=_AddCommand)
@click.argument("name", metavar="[NAME]")
@click.argument("target", nargs=-1, metavar="URL | FILE.py | -- COMMAND…")
@click.option(
    "-e",
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable for the program; ${NAME} is your own variable.",
)
@click.option("-H", "--header", multiple=True, metavar="NAME=VALUE", help="A header for the URL.")
@click.option("--cwd", type=click.Path(), help="The folder that the program runs in.")
@click.option("--on-demand", is_flag=True, help="Start it at its first call.")
@click.option("--sandbox", is_flag=True, help="Run it contained: no network, no files but its own.")
@click.option("--read", multiple=True, metavar="PATH", help="With --sandbox: a folder or file that it may read.")
@click.option("--write", multiple=True, metavar="PATH", help="With --sandbox: a folder that it may change.")
@click.option("--host", multiple=True, metavar="HOST[:PORT]", help="With --sandbox: a host that it may reach.")
@config_option
@json_option
def add(
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    cwd: str | None,
    on_demand: bool,
    sandbox: bool,
    read: tuple[str, ...],
    write: tuple[str, ...],
    host: tuple[str, ...],
    config: Path | None,
    as_json: bool,
) -> None:
    """Add a server: a program or a URL.

    A Python file runs with the Python of this command. Without NAME, the file's name is used. A Python file, and any
    program with --sandbox, is started once as a test. With --sandbox it may read the folders that its arguments name.

    \b
    Examples:
      interlock add ./weather.py
      interlock add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
      interlock add files --sandbox --write ~/notes -- npx -y @modelcontextprotocol/server-filesystem ~/notes
      interlock add github https://api.example.com/mcp/ -H 'Authorization=Bearer ${GITHUB_TOKEN}'
    """
    from interlock.cli.servers.contained import (
        check_folders,
        folders_named_in,
        install_packages,
        sandbox_settings,
        start_contained_once,
    )
    from interlock.config.settings import ServerSettings

    name, target, file = _parse_target(name, target)
    is_url = len(target) == 1 and "://" in target[0]
    named, private = folders_named_in(target[1:], (*read, *write)) if sandbox else ((), ())
    server = ServerSettings(
        url=target[0] if is_url else None,
        command=() if is_url else _absolute_program(target, cwd),
        env=read_pairs(env),
        headers=read_pairs(header),
        cwd=str(Path(cwd).absolute()) if cwd else None,
        start="on-demand" if on_demand else "eager",
        isolation="sandbox" if sandbox else "none",
        sandbox=sandbox_settings(sandbox, is_url, (*read, *named), write, host),
    )
    warnings = start_warnings(name, server)
    check_folders(name, server)
    install_packages(name, server)
    tools = None
    if file:
        tools = _start_once(name, server)
    elif sandbox and not warnings:
        tools = start_contained_once(name, server)
    changed = write_servers(config, {name: server})
    offered = "" if tools is None else f" It starts and offers {', '.join(tools) or 'no tools'}."
    offered += "".join(f" It may read {each}, which its command names; `--write` lets it change it." for each in named)
    warnings += [
        f"`{name}`: it may not read {each}, which its command names; add --read or --write" for each in private
    ]
    outcome = {"added": [name], "warnings": warnings, **({} if tools is None else {"tools": tools}), **changed}
    show_outcome(outcome, f"Added `{name}` to {changed['path']}.{offered}", as_json)


@click.command()
@click.argument("name", shell_complete=server_names)
@config_option
@json_option
def remove(name: str, config: Path | None, as_json: bool) -> None:
    """Remove a server.

    \b
    Example:
      interlock remove files
    """
    from interlock.config.edit import EditError, remove_server

    path = config_file(config)
    try:
        backup = remove_server(path, name)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    outcome = {"removed": [name], "path": str(path), "backup": str(backup) if backup else None, **reload_hub(path)}
    show_outcome(outcome, f"Removed `{name}` from {path}.", as_json)


_HOST = r"(?:localhost|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,})"
_ADDRESS = re.compile(rf"(?:https?:?/{{1,2}})?(?P<rest>{_HOST}(?::\d+)?/.*)\Z")
"""A URL written without `://`."""


def _parse_target(name: str, target: tuple[str, ...]) -> tuple[str, tuple[str, ...], bool]:
    """The name and target of a new server, and whether the target is a Python file, which becomes a command."""
    import sys

    from interlock.cli.writing.authoring import python_file

    file = python_file(target[0] if target else name) if len(target) < 2 else None
    if file is not None:
        return (name if target else file.stem), (sys.executable, str(file)), True
    word = target[0] if target else name
    if len(target) < 2 and word.endswith(".py"):
        raise WrongUsage(f"there is no file {word}", "give the path of a server's file, or a name and a command")
    if "://" in word and len(target) != 1:
        raise _not_one_target(name, target)
    if len(target) == 1 and len(word.split()) > 1 and not Path(word).exists():
        raise WrongUsage(f"`{word}` is one word, and no program", f"write interlock add {name} -- {word}")
    incomplete = len(target) == 1 and "://" not in word and not Path(word).exists()
    url = _ADDRESS.match(word) if incomplete else None
    if url is not None:
        scheme = "http" if word.startswith(("localhost", "127.")) else "https"
        command = f"interlock add {name} {scheme}://{url['rest']}"
        raise WrongUsage(f"`{word}` is neither a program nor a complete URL", f"write {command}")
    if incomplete and re.match(r"https?\b[:/]", word):
        raise WrongUsage(f"`{word}` is not a complete URL", f"write interlock add {name} https://HOST/PATH")
    if target:
        return name, target, False
    raise WrongUsage(f"`{name}` needs a URL or a command", f"for example: interlock add {name} -- npx -y PACKAGE")


def _not_one_target(name: str, target: tuple[str, ...]) -> WrongUsage:
    """A URL without a name, or with a command."""
    if target:
        return WrongUsage("a server has a URL or a command, not both", f"write interlock add {name} {target[0]}")
    host = name.partition("://")[2].partition("/")[0].partition(":")[0]
    parts = [part for part in host.split(".")[:-1] if part not in ("www", "api", "mcp")]
    suggested = parts[-1] if parts and not host.replace(".", "").isdigit() else "NAME"
    return WrongUsage("the server needs a name", f"write interlock add {suggested} {name}")


def _start_once(name: str, server: ServerSettings) -> list[str]:
    """Start a server as the hub would, and return its tools."""
    from interlock.cli.servers.contained import variables_of
    from interlock.cli.writing.authoring import tools_when_started
    from interlock.config.home import home_folder
    from interlock.hub.upstreams.contained_servers import containment_of

    containment = containment_of(name, server, home_folder())
    return tools_when_started(server.command, variables_of(server), server.cwd, containment)


def _absolute_program(command: tuple[str, ...], cwd: str | None) -> tuple[str, ...]:
    """The command with the full path of a program given relative to this folder or `cwd`, because the hub runs in
    another folder."""
    if not os.path.dirname(command[0]):
        return command
    return (os.path.abspath(os.path.join(cwd or "", command[0])), *command[1:])


def start_warnings(name: str, server: ServerSettings) -> list[str]:
    """The reasons why the server will not start, as far as the command can see."""
    from interlock.config.expand import all_variables, expand

    if not server.enabled:
        return []
    variables = all_variables(os.environ)
    warnings: list[str] = []
    program = expand(server.command[0], variables).text if server.command else ""
    if program and not shutil.which(program):
        warnings.append(f"`{name}`: the program `{program}` was not found; install it, or write its full path")
    texts = (*server.command, *server.env.values(), *server.headers.values(), server.url or "", server.cwd or "")
    filled = [expand(text, variables) for text in texts]
    missing = dict.fromkeys(variable for one in filled for variable in one.missing)
    missing |= dict.fromkeys(variable for variable in server.inherit_env if variable not in variables)
    warnings += [
        f"`{name}`: the variable `{variable}` is not set; run export {variable}=… before `interlock up`"
        for variable in missing
    ]
    unreadable = dict.fromkeys(piece for one in filled for piece in one.unreadable)
    warnings += [
        f"`{name}`: `{piece}` is not a valid variable; write its value, or ${{NAME}} for one of your variables"
        for piece in unreadable
    ]
    return warnings


def write_servers(config: Path | None, servers: dict[str, ServerSettings]) -> dict[str, Any]:
    from interlock.config.edit import EditError, add_servers

    path = config_file(config)
    try:
        backup = add_servers(path, servers)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    return {"path": str(path), "backup": str(backup) if backup else None, **reload_hub(path)}


def config_file(config: Path | None) -> Path:
    """The file to change: never a project's file, unless it is named."""
    from interlock.config.home import user_config

    named = os.environ.get("INTERLOCK_CONFIG")
    return (config or (Path(named) if named else user_config())).expanduser().absolute()


def reload_hub(path: Path) -> dict[str, Any]:
    """Have a running hub reload its configuration, if it uses this file."""
    from interlock.cli.control.hub_link import HubLink

    try:
        with HubLink.open() as link:
            answer = link.ask("hub/reload", timeout=60)
            used_path = as_dict(link.ask("hub/status").get("config")).get("path")
    except NoHub:
        return {"reloaded": False, "problems": []}
    except CommandFailure as failure:
        return {"reloaded": False, "problems": [{"message": failure.message, "hint": failure.hint}]}
    if used_path and Path(str(used_path)).resolve() != path.resolve():
        hint = f"run `interlock down`, then `interlock up --config {path}`"
        return {"reloaded": None, "problems": [{"message": f"it uses another file, {used_path}", "hint": hint}]}
    return {"reloaded": bool(answer.get("applied")), "problems": answer.get("problems") or []}


def show_outcome(outcome: dict[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        show_json(outcome)
        return
    say(plain(done))
    reported = tuple(f"`{problem.get('server')}`: " for problem in outcome["problems"])
    for text in [*outcome.get("warnings", []), *outcome.get("refused", [])]:
        if not text.startswith(reported):  # the hub says it below
            say(f"  → {plain(text)}", err=True)
    named = {*outcome.get("added", ()), *outcome.get("removed", ()), None}
    for problem in outcome["problems"]:
        if problem.get("server") not in named:
            continue  # `interlock status` shows the others
        hint = f": {problem['hint']}" if problem.get("hint") else ""
        say(f"  → the running hub: {plain(str(problem.get('message')) + hint)}", err=True)
    if "removed" in outcome:
        if outcome["reloaded"]:
            say("The running hub has stopped it.")
    elif outcome["reloaded"] is not None:
        several = len(outcome["added"]) > 1
        later = f"The hub will use {'them' if several else 'it'} after the next `interlock up`."
        say(f"The running hub now uses {'them' if several else 'it'}." if outcome["reloaded"] else later)


def read_pairs(words: tuple[str, ...]) -> dict[str, str]:
    """Options of the form NAME=VALUE."""
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise WrongUsage(f"`{word}` has no `=`", "write NAME=VALUE")
        pairs[name] = value
    return pairs
