"""Backups: one SQLite file for either database, made while the hub works, and put back into either.

Putting one back replaces documents and adds records that are missing. It never removes a record.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from . import documents, records
from .database import Database, transaction
from .documents import AnyCollection, Change
from .errors import StoreDamaged, StoreError, StoreReadOnly
from .records import RecordRow
from .schema import bring_up, schema_number, steps
from .sqlite import Sqlite

R = TypeVar("R")


class Write(Protocol):
    """Has work done in a transaction, and waits for it; `then` is called with what it gave."""

    def __call__(self, work: Callable[[Database], R], then: Callable[[R], None] | None = None) -> None: ...


def write_backup(database: Database, path: Path) -> None:
    """Make a backup at `path`. A file that is there already is replaced only by a whole new one."""
    with _whole_file(path) as draft:
        if isinstance(database, Sqlite):
            database.copy_to(draft)
        else:
            _copy_out(database, draft)


Also = Callable[[Database], list[Change]]
"""What is done in the same commit in which documents become those of a backup; gives what it changed in them."""


def restore(
    path: Path,
    write: Write,
    collections: Sequence[AnyCollection],
    changed: Callable[[list[Change]], None],
    also: Also = lambda database: [],
) -> None:
    """Put a backup back. Raises StoreDamaged, with nothing changed, for a file that is not a sound one."""
    with _copy_to_read(path) as backup:
        for chain in records.chains(backup):
            _restore_chain(backup, chain, write)

        def replace(database: Database) -> list[Change]:
            changes = _replace_documents(database, backup)
            documents.declare(database, collections)
            return changes + also(database)

        write(replace, changed)


def _copy_out(database: Database, draft: Path) -> None:
    """The same tables, with the schema the database has, in a file."""
    copy = Sqlite(draft)
    try:
        bring_up(copy, lambda _: None, steps()[: schema_number(database)])
        with transaction(database, read_only=True), transaction(copy):
            for table in sorted(copy.tables() - {"schema_steps", "records"}):
                columns = [str(row[1]) for row in copy.execute(f"PRAGMA table_info({table})")]
                copy.execute(f"DELETE FROM {table}")
                copy.insert(table, columns, database.execute(f"SELECT {', '.join(columns)} FROM {table}"))
            for chain in records.chains(database):
                for page in _pages(database, chain, 0):
                    records.append(copy, page)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()


def _restore_chain(backup: Database, chain: str, write: Write) -> None:
    newest = records.last(backup, chain)
    assert newest is not None
    have: list[int] = []

    def compare(database: Database) -> None:
        here = records.last(database, chain)
        if here is None:
            have[:] = [0]
            return
        # Each hash holds all before it, so one equal pair means one history.
        shared = min(here.seq, newest.seq)
        oldest = records.first(database, chain)
        if oldest is not None and oldest.seq > shared:
            # All of what the backup has was cut off here since; it does not come back.
            have[:] = [newest.seq]
            return
        one, other = records.get(database, chain, shared), records.get(backup, chain, shared)
        if one is None or other is None or one.hash != other.hash:
            raise StoreError(f"the backup tells another history of chain {chain}", "restore it into an empty database")
        have[:] = [here.seq]

    write(compare)
    for page in _pages(backup, chain, have[0]):
        write(partial(_append, page))


def _append(page: list[RecordRow], database: Database) -> None:
    records.append(database, page)


def _replace_documents(database: Database, backup: Database) -> list[Change]:
    """Make the documents those of the backup. Versions and revisions only grow: mirrors follow."""
    database.execute("UPDATE counters SET value = value WHERE name = 'revision'")
    revision = max(documents.counter(database, "revision"), documents.counter(backup, "revision"))
    here, there = documents.every(database), documents.every(backup)
    changes, kept = [], []
    for at in sorted(here.keys() | there.keys()):
        old, new = here.get(at), there.get(at)
        body = None if new is None else new.body
        if old is not None and old.body == body:
            kept.append(old)
            continue
        revision += 1
        version = 1 + max(old.version if old else 0, new.version if new else 0)
        changes.append(Change(*at, version, revision, body))
    documents.replace_all(database, kept + changes)
    database.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
    return changes


def _pages(database: Database, chain: str, after: int) -> Iterator[list[RecordRow]]:
    page: list[RecordRow] = []
    for row in records.in_order(database, chain, after):
        page.append(row)
        if len(page) == records.PAGE:
            yield page
            page = []
    if page:
        yield page


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes `path` once it is whole and on the disk."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as cause:
        raise StoreReadOnly(f"{path}: {cause.strerror}", "name a place that can be written") from cause
    draft = Path(name)
    try:
        yield draft
        os.fsync(handle)
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as cause:
        raise StoreReadOnly(f"{path}: {cause.strerror}", "name a place with room that can be written") from cause
    finally:
        os.close(handle)
        for left in draft.parent.glob(f"{draft.name}*"):
            left.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system has a way to."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _copy_to_read(path: Path) -> Iterator[Sqlite]:
    """The backup in a copy, checked and brought to this version's schema; the original is not touched."""
    with tempfile.TemporaryDirectory(prefix="interlock-restore-") as folder:
        copy = Path(folder) / "backup.db"
        try:
            shutil.copyfile(path, copy)
        except OSError as cause:
            raise StoreError(f"{path}: {cause.strerror}", "name a file made by `interlock backup`") from cause
        backup = Sqlite(copy)
        try:
            if problems := backup.problems():
                raise StoreDamaged(f"{path}: {problems[0]}", "use another backup")
            if schema_number(backup) == 0:
                raise StoreDamaged(f"{path} is not a backup", "name a file made by `interlock backup`")
            bring_up(backup, lambda _: None)
            yield backup
        finally:
            backup.close()
            with suppress(OSError):
                copy.unlink()
