"""`interlock add`, `remove` and `import`: the servers of the user's own `interlock.toml`."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .completion import server_names
from .failures import Failure, NoHub, Refused, WrongConfiguration, WrongUsage
from .show import as_dict, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config import Server

config_option = click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to change.")


@click.command()
@click.argument("name", metavar="[NAME]")
@click.argument("target", nargs=-1, metavar="URL | FILE.py | -- COMMAND…")
@click.option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="A variable for the program; ${NAME} reads yours."
)
@click.option("-H", "--header", multiple=True, metavar="NAME=VALUE", help="A header for the address.")
@click.option("--cwd", type=click.Path(), help="The folder that the program runs in.")
@click.option("--on-demand", is_flag=True, help="Start it at its first call.")
@config_option
@json_option
def add(
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    cwd: str | None,
    on_demand: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Add a server: a program or an address.

    A Python file is run with the Python that runs this command, after it has shown that it starts; without a NAME it
    is called by its own.

    \b
    Examples:
      interlock add ./weather.py
      interlock add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
      interlock add github https://api.example.com/mcp/ -H 'Authorization=Bearer ${GITHUB_TOKEN}'
    """
    from interlock.config import Server

    name, target, file = _author_file(name, target)
    is_url = len(target) == 1 and "://" in target[0]
    server = Server(
        url=target[0] if is_url else None,
        command=() if is_url else _from_here(target, cwd),
        env=_pairs(env),
        headers=_pairs(header),
        cwd=str(Path(cwd).absolute()) if cwd else None,
        start="on-demand" if on_demand else "eager",
    )
    warnings = _outlook(name, server)
    tools = _started(server) if file else None
    changed = _change(config, {name: server})
    offered = "" if tools is None else f" It starts, and offers {', '.join(tools) or 'no tools'}."
    outcome = {"added": [name], "warnings": warnings, **({} if tools is None else {"tools": tools}), **changed}
    _tell(outcome, f"`{name}` is added to {changed['path']}.{offered}", as_json)


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

    path = _own_file(config)
    try:
        backup = remove_server(path, name)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    outcome = {"removed": [name], "path": str(path), "backup": str(backup) if backup else None, **_reload(path)}
    _tell(outcome, f"`{name}` is removed from {path}.", as_json)


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option(
    "--trust",
    is_flag=True,
    help="Also take over programs that are no launchers of packages, shell lines, and code from addresses.",
)
@config_option
@json_option
def import_(files: tuple[Path, ...], trust: bool, config: Path | None, as_json: bool) -> None:
    """Take over the servers of another program's file.

    Reads `mcpServers` JSON (Claude, Cursor, Windsurf, Gemini), VS Code's `servers`, Codex's config.toml
    and mgp.toml. Nothing is run; the file itself is not changed.

    \b
    Example:
      interlock import ~/.cursor/mcp.json
    """
    from interlock.config.load import load

    path = _own_file(config)
    present = set(load(path).config.servers) if path.exists() else set()
    taken: dict[str, Server] = {}
    warnings: list[str] = []
    refused: list[str] = []
    for file in files:
        for name, server in _foreign(file.expanduser().absolute(), trust, refused).items():
            if name in present or name in taken:
                warnings.append(f"`{name}` is there already; the one in {file} was passed over")
                continue
            taken[name] = _resolved(server)
            warnings += _outlook(name, taken[name])
    changed = _change(config, taken) if taken else {"path": str(path), "backup": None, "reloaded": None, "problems": []}
    outcome = {"added": list(taken), "warnings": warnings, "refused": refused, **changed}
    count = "1 server is" if len(taken) == 1 else f"{len(taken)} servers are"
    _tell(outcome, f"{count} added to {path}: {', '.join(taken) or 'none'}.", as_json)
    if refused and not taken:
        raise Refused("nothing was taken over", "fix what is named above; --trust takes over what you know to be right")


_HOST = r"(?:localhost|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,})"
_ADDRESS = re.compile(rf"(?:https?:?/{{1,2}})?(?P<rest>{_HOST}(?::\d+)?/.*)\Z")
"""What someone means as an address and wrote without `://`."""


def _author_file(name: str, target: tuple[str, ...]) -> tuple[str, tuple[str, ...], bool]:
    """Name and command, where what is added is an author's own file; as they are, where it is not."""
    import sys

    from .authoring import python_file

    file = python_file(target[0] if target else name) if len(target) < 2 else None
    if file is not None:
        return (name if target else file.stem), (sys.executable, str(file)), True
    word = target[0] if target else name
    if len(target) < 2 and word.endswith(".py"):
        raise WrongUsage(f"there is no file {word}", "give the path of a server's file, or NAME and a command")
    incomplete = len(target) == 1 and "://" not in word and not Path(word).exists()
    meant = _ADDRESS.match(word) if incomplete else None
    if meant is not None:
        scheme = "http" if word.startswith(("localhost", "127.")) else "https"
        whole = f"interlock add {name} {scheme}://{meant['rest']}"
        raise WrongUsage(f"`{word}` is no program, and no whole address", f"write {whole}")
    if target:
        return name, target, False
    raise WrongUsage(f"what is `{name}`?", f"give its address, or its command: interlock add {name} -- COMMAND")


def _started(server: Server) -> list[str]:
    """Its tools, once it has started as the hub would start it."""
    from interlock.config.expand import all_variables, expand

    from .authoring import tools_when_started

    env = {variable: expand(value, all_variables(os.environ)).text for variable, value in server.env.items()}
    return tools_when_started(server.command, env, server.cwd)


def _foreign(file: Path, trust: bool, refused: list[str]) -> dict[str, Server]:
    from interlock.config.documents import read_document
    from interlock.config.imports import project_folder, read_import
    from interlock.config.launch import why_unsafe
    from interlock.config.problems import Problem, Report

    document = read_document(file)
    if isinstance(document, Problem):
        raise WrongConfiguration(f"{document.place}: {document.message}", document.hint)
    report = Report(file, document.lines, fatal=False)
    found = read_import(document, report, trusted=True)
    refused += [str(problem) for problem in report.problems]
    good: dict[str, Server] = {}
    for name, server in found.items():
        if server.problem is not None:
            continue
        reasons = [] if trust else why_unsafe(_as_found(server), project_folder(file))
        if reasons:
            refused.append(f"server `{name}` {reasons[0]} (if you want that, repeat with --trust)")
        else:
            good[name] = server
    return good


def _as_found(server: Server) -> Server:
    """As it is judged: a program by its bare name if the PATH leads to that very file."""
    from msgspec.structs import replace

    program = server.command[0] if server.command else ""
    bare = os.path.basename(program)
    is_found = bool(bare) and shutil.which(bare) == program
    return replace(server, cwd=None, command=(bare, *server.command[1:]) if is_found else server.command)


def _from_here(command: tuple[str, ...], cwd: str | None) -> tuple[str, ...]:
    """A program named by a path from this folder, or from the one it is to run in, by its full path: the hub runs
    elsewhere."""
    if not os.path.dirname(command[0]):
        return command
    return (os.path.abspath(os.path.join(cwd or "", command[0])), *command[1:])


def _resolved(server: Server) -> Server:
    """With its program's absolute path: the hub may run with another PATH than this shell."""
    from msgspec.structs import replace

    if not server.command or not (found := shutil.which(server.command[0])):
        return server
    return replace(server, command=(os.path.abspath(found), *server.command[1:]))


def _outlook(name: str, server: Server) -> list[str]:
    """What will keep the server from starting, as far as can be seen from here."""
    from interlock.config.expand import all_variables, expand

    if not server.enabled:
        return []
    variables = all_variables(os.environ)
    warnings: list[str] = []
    program = expand(server.command[0], variables).text if server.command else ""
    if program and not shutil.which(program):
        warnings.append(f"`{name}`: the program `{program}` is not found here; install it, or give its full path")
    texts = (*server.command, *server.env.values(), *server.headers.values(), server.url or "", server.cwd or "")
    filled = [expand(text, variables) for text in texts]
    missing = dict.fromkeys(variable for one in filled for variable in one.missing)
    missing |= dict.fromkeys(variable for variable in server.inherit_env if variable not in variables)
    warnings += [
        f"`{name}`: the variable `{variable}` is not set; export {variable}=… before `interlock up`"
        for variable in missing
    ]
    unreadable = dict.fromkeys(piece for one in filled for piece in one.unreadable)
    warnings += [
        f"`{name}`: `{piece}` means nothing here; write what it stands for, or ${{NAME}} for a variable of yours"
        for piece in unreadable
    ]
    return warnings


def _change(config: Path | None, servers: dict[str, Server]) -> dict[str, Any]:
    from interlock.config.edit import EditError, add_servers

    path = _own_file(config)
    try:
        backup = add_servers(path, servers)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    return {"path": str(path), "backup": str(backup) if backup else None, **_reload(path)}


def _own_file(config: Path | None) -> Path:
    """The file that add and remove change: never one that came with a folder, unless it was named."""
    from interlock.config import user_config

    named = os.environ.get("INTERLOCK_CONFIG")
    return (config or (Path(named) if named else user_config())).expanduser().absolute()


def _reload(path: Path) -> dict[str, Any]:
    """Tells a running hub; it is fine if there is none. One that goes by another file has nothing to take over."""
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    try:
        with HubLink.open(home_folder()) as link:
            answer = link.ask("hub/reload", timeout=60)
            in_force = as_dict(link.ask("hub/status").get("config")).get("path")
    except NoHub:
        return {"reloaded": False, "problems": []}
    except Failure as failure:
        return {"reloaded": False, "problems": [{"message": failure.message, "hint": failure.hint}]}
    if in_force and Path(str(in_force)).resolve() != path.resolve():
        another = {
            "message": f"it goes by {in_force}",
            "hint": f"`interlock down`, then `interlock up --config {path}`",
        }
        return {"reloaded": None, "problems": [another]}
    return {"reloaded": bool(answer.get("applied")), "problems": answer.get("problems") or []}


def _tell(outcome: dict[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        show_json(outcome)
        return
    say(plain(done))
    for text in [*outcome.get("warnings", []), *outcome.get("refused", [])]:
        say(f"  → {plain(text)}", err=True)
    named = {*outcome.get("added", ()), *outcome.get("removed", ()), None}
    for problem in outcome["problems"]:
        if problem.get("server") not in named:
            continue  # `status` tells of the others
        hint = f": {problem['hint']}" if problem.get("hint") else ""
        say(f"  → the running hub: {plain(str(problem.get('message')) + hint)}", err=True)
    if "removed" in outcome:
        if outcome["reloaded"]:
            say("The running hub does without it now.")
    elif outcome["reloaded"] is not None:
        several = len(outcome["added"]) > 1
        later = f"{'They are' if several else 'It is'} used at the next `interlock up`."
        say(f"The running hub uses {'them' if several else 'it'} now." if outcome["reloaded"] else later)


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise WrongUsage(f"`{word}` is not NAME=VALUE", "write it as NAME=VALUE")
        pairs[name] = value
    return pairs
