"""`interlock import`: take over the servers of another program's file.

The running hub starts imported servers at once, so a person confirms their full commands first.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interlock.cli.servers.plain_tokens import move_option, readable_by_all, without_plain_tokens
from interlock.cli.servers.servers import config_file, config_option, show_outcome, start_warnings, write_servers
from interlock.cli.terminal.failures import CommandRefused, WrongConfiguration
from interlock.cli.terminal.show import bold, counted, is_attended, json_option, plain, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.config.confirmations import PlannedServer
    from interlock.config.settings import ServerSettings


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--trust",
    is_flag=True,
    help="Also import other programs than package launchers, shell lines, and code from URLs.",
)
@move_option
@config_option
@json_option
def import_(
    files: tuple[Path, ...], yes: bool, trust: bool, move: bool | None, config: Path | None, as_json: bool
) -> None:
    """Import the servers of another program's file.

    Reads `mcpServers` JSON (Claude, Cursor, Windsurf, Gemini), VS Code's `servers`, Codex's config.toml
    and mgp.toml. It does not change that file. It shows every command and asks before a running hub starts it.

    \b
    Example:
      interlock import ~/.cursor/mcp.json
    """
    from interlock.config.load import load, planned

    path = config_file(config)
    present = set(load(path).config.servers) if path.exists() else set()
    taken: dict[str, ServerSettings] = {}
    warnings: list[str] = []
    refused: list[str] = []
    for file in files:
        for name, server in _read_other_file(file.expanduser().absolute(), trust, refused).items():
            if name in present or name in taken:
                warnings.append(f"Skipped `{name}` of {file}: already configured.")
                continue
            taken[name] = server
            warnings += readable_by_all(file, {name: server})
            warnings += start_warnings(name, taken[name])
    if taken and not yes:
        _confirm([planned(name, server) for name, server in taken.items()], refused)
    taken, plain_ones = without_plain_tokens(taken, move=move, may_ask=not yes)
    warnings += plain_ones
    changed = (
        write_servers(config, taken) if taken else {"path": str(path), "backup": None, "reloaded": None, "problems": []}
    )
    warnings += readable_by_all(path, taken)
    outcome = {"added": list(taken), "warnings": warnings, "refused": refused, **changed}
    if taken and not yes and not as_json:
        outcome["refused"] = []  # shown with the question
    done = f"Added {counted(len(taken), 'server')} to {path}: {', '.join(taken)}." if taken else "Nothing was added."
    show_outcome(outcome, done, as_json)
    if refused and not taken:
        raise CommandRefused("no server was imported", "fix the problems above; use --trust for servers that you trust")


def show_planned(servers: Iterable[PlannedServer], before: str = "  ", after: str = "") -> None:
    """Show every command, address and value, as a person confirms them: in full, but for the secrets.

    `before` and `after` stand around the name of each."""
    from interlock.hub.admin.server_address import address_shown, command_shown, value_shown

    for server in servers:
        target = address_shown(server.url) if server.url else command_shown(server.command)
        folder = f"  in {plain(server.cwd)}" if server.cwd else ""
        say(f"{before}{bold(server.id, err=True)}{after}: {plain(target)}{folder}", err=True)
        for name, value in (*server.env.items(), *server.headers.items()):
            say(f"      {plain(name)}={plain(value_shown(name, value))}", err=True)
        if server.variables:
            say(f"      reads from your environment: {', '.join(server.variables)}", err=True)
        if not server.enabled:
            say("      not started: it is disabled in the file", err=True)
        if server.refused:
            say(f"      never started: {plain(server.refused)}", err=True)


def _confirm(servers: list[PlannedServer], refused: list[str]) -> None:
    say("The hub will start:", err=True)
    show_planned(servers)
    for text in refused:
        say(f"  not imported: {plain(text)}", err=True)
    if not is_attended():
        raise CommandRefused("importing needs a confirmation", "run it in a terminal, or with --yes")
    click.confirm(f"Import {counted(len(servers), 'server')}?", default=False, abort=True, err=True)


def _read_other_file(file: Path, trust: bool, refused: list[str]) -> dict[str, ServerSettings]:
    from interlock.config.documents import read_document
    from interlock.config.imports import read_import
    from interlock.config.launch import why_unsafe
    from interlock.config.problems import Problem, ProblemReport

    document = read_document(file)
    if isinstance(document, Problem):
        raise WrongConfiguration(f"{document.place}: {document.message}", document.hint)
    report = ProblemReport(file, document.lines, fatal=False)
    found = read_import(document, report, trusted=True)
    refused += [str(problem) for problem in report.problems]
    good: dict[str, ServerSettings] = {}
    for name, server in found.items():
        if server.problem is not None:
            continue
        # No folder is trusted: a program named `npx` beside the file is not the launcher of that name.
        reasons = [] if trust else why_unsafe(with_bare_program(server), None)
        if reasons:
            refused.append(f"server `{name}` {reasons[0]} (to import it anyway, use --trust)")
        else:
            good[name] = server
    return good


def with_bare_program(server: ServerSettings) -> ServerSettings:
    """The server as it is checked: with the bare name of its program, if PATH leads to the same file."""
    from msgspec.structs import replace

    program = server.command[0] if server.command else ""
    bare = os.path.basename(program)
    is_found = bool(bare) and shutil.which(bare) == program
    return replace(server, cwd=None, command=(bare, *server.command[1:]) if is_found else server.command)
