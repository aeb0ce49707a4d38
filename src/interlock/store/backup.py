"""Backups: one SQLite file for either database, written while the hub runs and restored into either.

A restore replaces the documents and adds missing rows of the audit log. It never removes a row.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from . import documents, records
from .database import Database, transaction
from .documents import AnyCollection, Change
from .errors import StoreDamaged, StoreError, StoreReadOnly
from .schema import bring_up, schema_number, steps
from .sqlite import Sqlite

MADE_BY: Final = "name a file made by `interlock backup`"

Write: TypeAlias = Callable[[Callable[[Database], Any], Callable[[Any], None] | None], Any]
"""Runs work in a transaction of the writer and returns its result; calls the second function with it on the loop."""
Also: TypeAlias = Callable[[Database], list[Change]]
"""Runs in the commit that replaces the documents, and returns the documents it changed itself."""


def write_backup(database: Database, path: Path) -> None:
    """Write a backup to `path`. An existing file is replaced only by a complete new one."""
    with _complete_file(path) as draft:
        if isinstance(database, Sqlite):
            database.copy_to(draft)
        else:
            _copy_out(database, draft)


def restore(
    path: Path,
    write: Write,
    collections: Sequence[AnyCollection],
    changed: Callable[[list[Change]], None],
    also: Also = lambda database: [],
) -> None:
    """Restore a backup. Raises StoreDamaged, with nothing changed, for a file that is not an intact backup."""
    with _checked_copy(path) as backup:
        for chain in records.chains(backup):
            after = write(partial(_last_common, backup, chain), None)
            for page in records.pages(backup, chain, after):
                write(partial(records.append, rows=page), None)

        def replace(database: Database) -> list[Change]:
            changes = _replace_documents(database, backup)
            documents.declare(database, collections)
            return changes + also(database)

        write(replace, changed)


def _copy_out(database: Database, draft: Path) -> None:
    """Copy all tables to a SQLite file that has the same schema."""
    copy = Sqlite(draft)
    try:
        bring_up(copy, lambda _: None, steps()[: schema_number(database)])
        with transaction(database, read_only=True), transaction(copy):
            for table in sorted(copy.tables() - {"schema_steps", "records"}):
                columns = [str(row[1]) for row in copy.execute(f"PRAGMA table_info({table})")]
                copy.execute(f"DELETE FROM {table}")
                copy.insert(table, columns, database.execute(f"SELECT {', '.join(columns)} FROM {table}"))
            for chain in records.chains(database):
                for page in records.pages(database, chain, 0):
                    records.append(copy, page)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()


def _last_common(backup: Database, chain: str, database: Database) -> int:
    """The sequence number after which rows of the backup are missing in the database."""
    newest, current = records.last(backup, chain), records.last(database, chain)
    if newest is None or current is None:
        return 0
    # Each hash covers all rows before it, so one equal pair proves an equal history.
    common = min(current.seq, newest.seq)
    oldest = records.first(database, chain)
    if oldest is not None and oldest.seq > common:
        # The database has deleted all rows of the backup since. They stay deleted.
        return newest.seq
    one, other = records.get(database, chain, common), records.get(backup, chain, common)
    if one is None or other is None or one.hash != other.hash:
        raise StoreError(f"the backup has a different history of chain {chain}", "restore it into an empty database")
    return current.seq


def _replace_documents(database: Database, backup: Database) -> list[Change]:
    """Replace the documents with those of the backup. Versions and revisions only grow, so mirrors follow."""
    database.execute("UPDATE counters SET value = value WHERE name = 'revision'")
    last = documents.counter(database, "revision")
    revision = max(last, documents.counter(backup, "revision"))
    current, restored = documents.every(database), documents.every(backup)
    if (wrong := next((change for change in restored.values() if change.is_damaged), None)) is not None:
        raise wrong.problem
    changes, unchanged = [], []
    for at in sorted(current.keys() | restored.keys()):
        old, new = current.get(at), restored.get(at)
        body = None if new is None else new.body
        if old is not None and not old.is_damaged and old.body == body and old.revision <= last:
            unchanged.append(old)
            continue
        revision += 1
        version = 1 + max(old.version if old else 0, new.version if new else 0)
        changes.append(Change(*at, version, revision, body))
    documents.replace_all(database, unchanged + changes)
    database.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
    return changes


@contextmanager
def _complete_file(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` once the file is complete and on the disk."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as cause:
        raise _unwritten(path, cause, "choose a folder that can be written") from cause
    draft = Path(name)
    try:
        yield draft
        os.fsync(handle)
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as cause:
        raise _unwritten(path, cause, "choose a writable folder with enough free space") from cause
    finally:
        os.close(handle)
        for left in draft.parent.glob(f"{draft.name}*"):
            left.unlink()


def _unwritten(path: Path, cause: OSError, hint: str) -> StoreReadOnly:
    return StoreReadOnly("the backup cannot be written", hint, operator_text=f"{path}: {cause.strerror}")


def _no_backup(path: Path) -> StoreDamaged:
    return StoreDamaged("this is not a backup", MADE_BY, operator_text=str(path))


def _sync_folder(folder: Path) -> None:
    """Make a new file name survive a power cut, on systems that support it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _checked_copy(path: Path) -> Iterator[Sqlite]:
    """A checked copy of the backup, upgraded to this version's schema. The original is not changed."""
    with tempfile.TemporaryDirectory(prefix="interlock-restore-") as folder:
        copy = Path(folder) / "backup.db"
        try:
            shutil.copyfile(path, copy)
        except OSError as cause:
            text = f"{path}: {cause.strerror}"
            raise StoreError("the backup cannot be read", MADE_BY, operator_text=text) from cause
        try:
            backup = Sqlite(copy)
        except StoreDamaged as cause:
            raise _no_backup(path) from cause
        try:
            if problems := backup.problems():
                text = f"{path}: {problems[0]}"
                raise StoreDamaged("the backup is damaged", "use another backup", operator_text=text)
            if schema_number(backup) == 0:
                raise _no_backup(path)
            bring_up(backup, lambda _: None)
            yield backup
        finally:
            backup.close()
            with suppress(OSError):
                copy.unlink()
