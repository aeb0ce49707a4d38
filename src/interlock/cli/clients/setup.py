"""`interlock setup`: puts the hub in the place of the servers that the clients of this machine start themselves.

Every change is recorded in `setup.json` of the hub's home before it is made, so that `--undo` restores each file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from interlock.cli.clients.clients import AgentClient, clients, executable, with_entry, without_entries
from interlock.cli.clients.connect import existing_entry, has_valid_key, new_key
from interlock.cli.clients.setup_record import ChangedFile, SetupRecord, SetupStep
from interlock.cli.clients.setup_undo import own_servers, undo_setup
from interlock.cli.servers.importing import show_planned, with_bare_program
from interlock.cli.servers.plain_tokens import move_option, readable_by_all, with_plain_tokens, without_plain_tokens
from interlock.cli.servers.servers import config_file, config_option, write_servers
from interlock.cli.terminal.failures import CommandFailure, CommandRefused
from interlock.cli.terminal.show import counted, is_attended, json_option, plain, say, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.config.problems import KeyPath
    from interlock.config.settings import ServerSettings


class FoundServer(NamedTuple):
    """One server, and every client entry that starts it."""

    id: str
    server: ServerSettings
    places: list[tuple[AgentClient, KeyPath]]
    reasons: list[str]
    """Why it is unusual: a shell line, code from an address …"""
    configured: bool
    """Whether the hub has it already."""


@click.command()
@click.option("--yes", is_flag=True, help="Take everything that is found, without unusual commands, and do not ask.")
@click.option("--trust", is_flag=True, help="With --yes: also take unusual commands, such as shell lines.")
@click.option("--undo", is_flag=True, help="Restore the files of all clients, and revoke the keys that it created.")
@move_option
@config_option
@json_option
def setup(yes: bool, trust: bool, undo: bool, move: bool | None, config: Path | None, as_json: bool) -> None:
    """Put the hub in the place of the servers that your clients start.

    Finds the configurations of all known clients, shows every server and its command, imports those you choose, and
    writes the hub into each client in their place. The old files are kept. It is safe to run it again.

    \b
    Example:
      interlock setup
    """
    from interlock.config.home import home_folder

    record = SetupRecord(home_folder())
    outcome = undo_setup(record) if undo else _set_up(record, config, yes=yes, trust=trust, move=move)
    if as_json:
        show_json(outcome)
    else:
        _show(outcome, undo=undo)


def _set_up(record: SetupRecord, config: Path | None, *, yes: bool, trust: bool, move: bool | None) -> dict[str, Any]:
    from interlock.cli.control.starting import reach_hub
    from interlock.config.home import home_folder

    record.check()
    path = config_file(config)
    present = [one for one in clients() if _is_present(one)]
    configured = own_servers(path)
    found, problems = _find(present, configured)
    if not present:
        raise CommandFailure("no client was found on this machine", "install one, or run `interlock connect --help`")
    chosen, connected = _choose(found, present, yes=yes, trust=trust)
    left = [_left(one) for one in found if one not in chosen]
    if not chosen and not connected:
        return {"added": [], "clients": [], "left": left, "problems": problems, "path": str(path)}
    command = executable()
    for one in connected:  # every file is checked before the first one is changed
        _changed(one, chosen, one.entry(command, ""))
    new = {one.id: one.server for one in chosen if one.id not in configured}
    new, warnings = without_plain_tokens(new, move=move, may_ask=not yes)
    problems += warnings
    written: dict[str, Any] = {}
    if new:
        before = _text(path) if path.exists() else None
        written = write_servers(config, new)
        record.add_servers(ChangedFile.of(path, before, _text(path)), new)
    problems += readable_by_all(path, new)
    changed: list[str] = []
    try:
        with reach_hub(home_folder()) as link:
            for one in connected:
                # A client that has an entry keeps it, with its key and profile.
                keeps = has_valid_key(link, one.name, existing_entry(one))
                entry = None if keeps else one.entry(command, new_key(link, one.name))
                _write(one, chosen, entry, record)
                changed.append(one.title)
    except BaseException:
        _say_stopped(path, list(new), changed)
        raise
    return {
        "added": list(new),
        "clients": [{"client": one.name, "path": str(one.path)} for one in connected],
        "left": left,
        "problems": [*problems, *(str(problem.get("message")) for problem in written.get("problems") or [])],
        "path": str(path),
    }


def _say_stopped(path: Path, added: list[str], changed: list[str]) -> None:
    """Say what `setup` did before it failed, and how to continue or undo it."""
    done = (
        [f"{', '.join(added)} is in {path}" if len(added) == 1 else f"{', '.join(added)} are in {path}"]
        if added
        else []
    )
    done.append(f"{', '.join(changed)} has the hub" if changed else "no client was changed")
    say(f"Setup stopped halfway: {plain('; '.join(done))}.", err=True)
    say("  → run `interlock setup` again to go on, or `interlock setup --undo` to go back", err=True)


def _left(one: FoundServer) -> dict[str, Any]:
    """A server that its clients go on starting themselves."""
    clients = list(dict.fromkeys(client.name for client, _ in one.places))
    hint = "look at its command, then run `interlock setup --yes --trust`" if one.reasons else ""
    return {"server": one.id, "clients": clients, "unusual": one.reasons, "hint": hint}


def _is_present(one: AgentClient) -> bool:
    from interlock.config.home import user_home

    return one.path.exists() or (one.path.parent != user_home() and one.path.parent.is_dir())


def _find(present: Sequence[AgentClient], configured: dict[str, ServerSettings]) -> tuple[list[FoundServer], list[str]]:
    """The servers of all clients, those with the same definition once. Also the problems of their files."""
    from msgspec.structs import replace

    from interlock.config.documents import read_document
    from interlock.config.imports import read_import
    from interlock.config.launch import why_unsafe
    from interlock.config.names import adopt_id
    from interlock.config.problems import Problem, ProblemReport

    found: dict[str, FoundServer] = {}
    problems: list[str] = []
    configured = {name: with_plain_tokens(server) for name, server in configured.items()}
    for one in present:
        if not one.path.exists():
            continue
        document = read_document(one.path)
        if isinstance(document, Problem):
            problems.append(str(document))
            continue
        report = ProblemReport(one.path, document.lines, fatal=False)
        servers = read_import(document, report, trusted=True) if _has_servers(document.content, one) else {}
        problems += [str(problem) for problem in report.problems]
        for name, server in servers.items():
            at = report.sections[name].path
            if server.problem is not None or not server.enabled:
                continue
            server = replace(server, source="")
            taken = {**configured, **{known: other.server for known, other in found.items()}}
            chosen = next((known for known, other in taken.items() if replace(other, source="") == server), name)
            if chosen in taken and replace(taken[chosen], source="") != server:
                chosen = adopt_id(f"{name}-{one.name}") or name
            unusual = why_unsafe(with_bare_program(server), None)
            row = found.setdefault(chosen, FoundServer(chosen, server, [], unusual, chosen in configured))
            if row.server == server:
                row.places.append((one, at))
            else:
                problems.append(f"{one.path}: `{name}` is skipped: the names `{name}` and `{chosen}` are taken")
    return list(found.values()), problems


def _has_servers(content: object, one: AgentClient) -> bool:
    from collections.abc import Mapping

    sections = {one.at[0], "projects"} if one.name == "claude-code" else {one.at[0]}
    return isinstance(content, Mapping) and not sections.isdisjoint(content)


def _choose(
    found: list[FoundServer], present: list[AgentClient], *, yes: bool, trust: bool
) -> tuple[list[FoundServer], list[AgentClient]]:
    """The servers to import and the clients to write to."""
    from interlock.config.load import planned

    if found:
        say(f"Found {counted(len(found), 'server')}:", err=True)
    for number, one in enumerate(found, 1):
        titles = ", ".join(dict.fromkeys(client.title for client, _ in one.places))
        known = ", in the hub already" if one.configured else ""
        show_planned([planned(one.id, one.server)], f"{number:3} ", f" ({titles}{known})")
        for reason in one.reasons:
            say(f"      → unusual: it {plain(reason)}", err=True)
    if yes:
        chosen = [one for one in found if trust or not one.reasons]
    elif not is_attended():
        raise CommandRefused("setup needs a person's choice", "run it in a terminal, or with --yes")
    else:
        chosen = _ask(found) if found else []
    open_clients = [one for one in present if existing_entry(one) is None or _imported_from(one, chosen)]
    if yes:
        # With --yes, a client that keeps all of its servers does not get the hub in addition.
        has_none = [one for one in open_clients if not _imported_from(one, found)]
        return chosen, [one for one in open_clients if one in has_none or _imported_from(one, chosen)]
    if not open_clients:
        return chosen, open_clients
    names = ", ".join(one.title for one in open_clients)
    agreed = click.confirm(f"Write the hub into {names}, in place of the imported servers?", default=True, err=True)
    return (chosen, open_clients) if agreed else ([], [])


def _ask(found: list[FoundServer]) -> list[FoundServer]:
    while True:
        answer = click.prompt("Import which? all, none, or numbers such as 1,3", default="all", err=True).strip()
        if answer in ("all", "none"):
            return found if answer == "all" else []
        numbers = [word.strip() for word in answer.split(",")]
        if all(word.isdecimal() and 1 <= int(word) <= len(found) for word in numbers):
            return [found[int(word) - 1] for word in dict.fromkeys(numbers)]


def _imported_from(one: AgentClient, chosen: list[FoundServer]) -> list[KeyPath]:
    return [at for found in chosen for client, at in found.places if client.name == one.name]


def _changed(one: AgentClient, chosen: list[FoundServer], entry: dict[str, object] | None) -> str:
    """The client's file without the chosen servers and, if it has none, with our entry."""
    text = _text(one.path)
    text = without_entries(one, text, _imported_from(one, chosen)) if text else text
    return text if entry is None else with_entry(one, text, entry)


def _write(one: AgentClient, chosen: list[FoundServer], entry: dict[str, object] | None, record: SetupRecord) -> None:
    from interlock.config.files import back_up, locked_for_change, write_atomically

    with locked_for_change(one.path):
        before = _text(one.path) if one.path.exists() else None
        text = _changed(one, chosen, entry)
        taken = tuple(tuple(map(str, at)) for at in _imported_from(one, chosen))
        back_up(one.path)
        record.add(SetupStep(one.name, ChangedFile.of(one.path, before, text), taken, keyed=entry is not None))
        write_atomically(one.path, text.encode(), private=True)


def _text(path: Path) -> str:
    from interlock.config.files import read_exactly

    return read_exactly(path)


def _show(outcome: dict[str, Any], *, undo: bool) -> None:
    if undo:
        for path in outcome["restored"]:
            say(f"Restored {plain(path)}.")
        if outcome["removed"]:
            say(f"Removed {', '.join(outcome['removed'])} from your configuration.")
        if not outcome["restored"] and not outcome["removed"]:
            say("There is nothing to undo.")
    elif not outcome["added"] and not outcome["clients"]:
        say("Nothing was changed." if outcome["left"] else "Nothing to do: your clients use the hub already.")
    else:
        added = outcome["added"]
        if added:
            say(f"Added {counted(len(added), 'server')} to {plain(outcome['path'])}: {', '.join(added)}.")
        for one in outcome["clients"]:
            say(f"Connected {one['client']}: {plain(one['path'])}")
        say("  → restart your clients to see the tools; `interlock status` shows the servers")
        say("  → to take it back: `interlock setup --undo`")
    for one in outcome.get("left", ()):
        say(f"Left as it is: {one['server']}, which {', '.join(one['clients'])} starts itself.", err=True)
    if any(one["hint"] for one in outcome.get("left", ())):
        say("  → to move unusual commands too, look at them and run `interlock setup --yes --trust`", err=True)
    for problem in outcome["problems"]:
        say(f"  → {plain(problem)}", err=True)
