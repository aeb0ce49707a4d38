"""`interlock setup --undo`: gives each client its servers back, takes them out of the hub, and revokes the keys.

A file that nobody changed since is restored with every byte. In another one, only our entry and the servers change.
The hub keeps its servers until every client has its own back.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.clients.clients import ENTRY, client, member_at, with_member, without_entries
from interlock.cli.clients.connect import disconnect, existing_entry, revoke_keys
from interlock.cli.terminal.failures import CommandFailure, NoHub

if TYPE_CHECKING:
    from interlock.cli.clients.setup_record import Addition, SetupRecord, SetupStep
    from interlock.config.settings import ServerSettings


def undo_setup(record: SetupRecord) -> dict[str, Any]:
    """Undo every recorded change. One that cannot be undone stays in the record, and is reported."""
    restored: list[str] = []
    problems: list[str] = []
    revoke: set[str] = set()
    failed = False
    for step in record.steps_newest_first():
        try:
            problems += _undo_step(step)
        except (CommandFailure, OSError, UnicodeDecodeError) as error:
            failed = True
            reason = (
                f"{error.message}: {error.hint}" if isinstance(error, CommandFailure) else f"{step.file.path}: {error}"
            )
            problems.append(reason)
            continue
        record.drop(step)
        restored += [step.file.path] if step.file.path not in restored else []
        revoke |= {step.client} if step.keyed else set()
    removed: list[str] = []
    if failed:
        problems.append("the hub keeps the servers until that is corrected; then run `interlock setup --undo` again")
    else:
        for addition in record.additions_newest_first():
            try:
                gone, kept = _remove_servers(addition)
            except CommandFailure as error:
                problems.append(f"{error.message}: {error.hint}; then run `interlock setup --undo` again")
                continue
            removed += gone
            problems += kept
            record.drop_addition(addition)
    problems += _revoke(revoke)
    return {"restored": restored, "removed": removed, "problems": problems}


def _undo_step(step: SetupStep) -> list[str]:
    """Undo one change of a client's file. Returns what the person should know."""
    from interlock.config.files import back_up, locked_for_change, read_exactly, write_atomically

    path = Path(step.file.path)
    with locked_for_change(path):
        if step.file.is_unchanged() or not path.exists():
            step.file.restore()
            return []
        text = read_exactly(path)
        changed, notes = _with_servers_back(step, text)
        if changed != text:
            back_up(path)
            write_atomically(path, changed.encode())
    return notes


def _with_servers_back(step: SetupStep, text: str) -> tuple[str, list[str]]:
    """The client's file as somebody edited it since, with its servers and without our entry."""
    chosen = client(step.client)._replace(path=Path(step.file.path))
    if step.keyed:
        text = without_entries(chosen, text, [(*chosen.at, ENTRY)]) if text.strip() else text
    notes: list[str] = []
    for place in step.taken:
        own = member_at(chosen, step.file.before or "", place)
        there = member_at(chosen, text, place)
        if there is None and own is not None:
            text = with_member(chosen, text, place, own)
        elif there != own:
            notes.append(f"{chosen.path}: `{place[-1]}` was added again since, and stays as it is")
    return text, notes


def _remove_servers(addition: Addition) -> tuple[list[str], list[str]]:
    """Remove the servers that are as they were added. Returns those, and why others stay."""
    from interlock.config.edit import EditError, remove_server

    if addition.file.is_unchanged():
        addition.file.restore()
        return list(addition.servers), []
    path = Path(addition.file.path)
    own = own_servers(path)
    removed: list[str] = []
    problems: list[str] = []
    for name in addition.servers:
        if name in own and addition.is_as_added(name, own[name]):
            try:
                remove_server(path, name)
                removed.append(name)
            except EditError as error:
                problems.append(f"{error}: {error.hint}")
        elif name in own:
            problems.append(f"`{name}` was edited since and stays in {path}")
    return removed, problems


def _revoke(names: set[str]) -> list[str]:
    from interlock.cli.control.hub_link import HubLink

    problems: list[str] = []
    for name in sorted(names):
        if existing_entry(client(name)) is not None:
            disconnect(client(name))
            problems.append(f"{name} had an older entry whose key is gone; run `interlock connect {name}`")
    try:
        with HubLink.open() as link:
            for name in sorted(names):
                revoke_keys(link, name)
            link.ask("hub/reload", timeout=60)
    except NoHub:
        problems += [
            f"no hub is running, the key of {name} stays valid; `interlock up -d`, then `interlock keys revoke {name}`"
            for name in sorted(names)
        ]
    return problems


def own_servers(path: Path) -> dict[str, ServerSettings]:
    """The servers of a configuration file. Raises CommandFailure if it cannot be read."""
    from interlock.config.documents import read_document
    from interlock.config.problems import Problem, ProblemReport
    from interlock.config.sections import read_config

    document = read_document(path) if path.exists() else None
    if document is None:
        return {}
    if isinstance(document, Problem):
        raise CommandFailure(f"{document.place}: {document.message}", document.hint)
    return dict(read_config(document.content, ProblemReport(path, document.lines)).servers)
