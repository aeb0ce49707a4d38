"""The SQL of documents: applying edits, and reading. Runs on the store's threads.

Every change raises the one revision counter and locks it until the commit, so the changes of all nodes have one order.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from .collection import Collection, Document, column_text
from .database import Database, Row, in_chunks
from .errors import Conflict, StoreDamaged, WrongChecksum
from .writer import Unchanged

T = TypeVar("T", bound=msgspec.Struct)
AnyCollection = Collection[Any]

KEEP_DELETED_MS: Final = 24 * 3600 * 1000
"""How long a deletion is kept for nodes that have not read it yet."""
_PAGE: Final = 1000
_REVISION: Final = "SELECT value FROM counters WHERE name = 'revision'"
_MAX_ALTERNATIVES: Final = 64


class Change(msgspec.Struct, frozen=True):
    """The state of a document after a change. `body` is None once it is deleted."""

    collection: str
    key: str
    version: int
    revision: int
    body: str | None
    is_damaged: bool = False
    """Whether the row does not match its checksum. It may have been anything, a deletion too."""

    @property
    def problem(self) -> WrongChecksum:
        """The error of a row that does not match its checksum."""
        return WrongChecksum(self.collection, self.key)


class Edit(msgspec.Struct, frozen=True):
    """A document to write, or with `body` None, to delete."""

    collection: AnyCollection
    key: str
    body: str | None


class Changes(msgspec.Struct, frozen=True):
    """The edits of a transaction, and the versions that documents must still have; 0: the document must not exist."""

    expected: Mapping[tuple[str, str], int]
    edits: Sequence[Edit]
    found: Mapping[tuple[str, str, str], frozenset[str]] = {}
    """The keys that must still be all documents with a value in a column, by collection, column and value."""

    @property
    def edited(self) -> list[tuple[str, str]]:
        """Collection and key of each edited document."""
        return [(edit.collection.name, edit.key) for edit in self.edits]


def apply(database: Database, changes: Changes) -> list[Change]:
    """Apply all edits, or raise Conflict with nothing changed."""
    # An unused revision does no harm, so a conflict may still refuse after this.
    count = len(changes.edits)
    raised = database.execute("UPDATE counters SET value = value + ? WHERE name = 'revision' RETURNING value", (count,))
    revision = _number(raised[0][0]) - count
    found = _rows(database, list(dict.fromkeys((*changes.expected, *changes.edited))))
    for place, expected in changes.expected.items():
        old = found.get(place)
        if expected != (0 if old is None or old.body is None else old.version):
            raise Unchanged(Conflict(f"an entry of {place[0]} was changed meanwhile", operator_text=repr(place[1])))
    for column, keys in changes.found.items():
        # The counter is locked, so no other transaction adds one before this commits.
        rows = database.execute(
            "SELECT key FROM document_columns WHERE collection = ? AND name = ? AND value = ?", column
        )
        if keys != {key for (key,) in rows}:
            raise Unchanged(Conflict(f"the entries of {column[0]} were changed meanwhile", operator_text=column[1]))
    done: list[Change] = []
    removed: list[Row] = []
    added: list[Row] = []
    for offset, edit in enumerate(changes.edits, 1):
        name = edit.collection.name
        old = found.get((name, edit.key))
        if edit.body is None and (old is None or old.body is None):
            continue
        done.append(Change(name, edit.key, 1 if old is None else old.version + 1, revision + offset, edit.body))
        before = {} if old is None or old.body is None else edit.collection.column_values(old.body)
        after = {} if edit.body is None else edit.collection.column_values(edit.body)
        removed += [(name, *column, edit.key) for column in before.items() - after.items()]
        added += [(name, *column, edit.key) for column in after.items() - before.items()]
    _put(database, done)
    _update_columns(database, removed, added)
    if done:
        database.announce()
    return done


def get(database: Database, collection: Collection[T], key: str) -> Document[T] | None:
    place = (collection.name, key)
    found = _rows(database, [place]).get(place)
    return None if found is None or found.body is None else _document(collection, found)


def current(database: Database, changes: Changes) -> list[Change]:
    """The current state of the edited documents, including deleted ones."""
    return list(_rows(database, changes.edited).values())


def find(database: Database, collection: Collection[T], columns: Mapping[str, object]) -> list[Document[T]]:
    """Every document whose columns have these values, by key. Raises StoreDamaged."""
    return [_document(collection, _checked(row)) for row in _found(database, collection, columns)]


def find_readable(
    database: Database, collection: Collection[T], columns: Mapping[str, object]
) -> tuple[list[Document[T]], dict[str, StoreDamaged]]:
    """The same documents without those that cannot be read, and these by key."""
    found: list[Document[T]] = []
    problems: dict[str, StoreDamaged] = {}
    for row in _found(database, collection, columns):
        try:
            found.append(_document(collection, _checked(row)))
        except StoreDamaged as problem:
            problems[str(row[1])] = problem
    return found, problems


def _found(database: Database, collection: AnyCollection, columns: Mapping[str, object]) -> Sequence[Row]:
    sql = f"SELECT {_FIELDS} FROM documents WHERE collection = ? AND body IS NOT NULL"
    values: list[str] = [collection.name]
    for name, value in columns.items():
        if name not in collection.columns:
            raise ValueError(f"{name!r} is not declared as a column of {collection.name}")
        sql += " AND key IN (SELECT key FROM document_columns WHERE collection = ? AND name = ? AND value = ?)"
        values += [collection.name, name, column_text(value)]
    return database.execute(sql + " ORDER BY key", values)


def pages(database: Database, collection: Collection[T], size: int) -> Iterator[list[Document[T]]]:
    """Every document of a collection by key, a page at a time."""
    sql = f"SELECT {_FIELDS} FROM documents WHERE collection = ? AND key > ? AND body IS NOT NULL ORDER BY key LIMIT ?"
    after = ""
    while rows := database.execute(sql, (collection.name, after, size)):
        page = [_document(collection, _checked(row)) for row in rows]
        after = page[-1].key
        yield page


def keys(database: Database, collection: str) -> list[str]:
    """The keys of a collection, in order."""
    sql = "SELECT key FROM documents WHERE collection = ? AND body IS NOT NULL ORDER BY key"
    return [str(row[0]) for row in database.execute(sql, (collection,))]


def values(database: Database, collection: AnyCollection, column: str) -> list[str]:
    """The different values of a column."""
    sql = "SELECT DISTINCT value FROM document_columns WHERE collection = ? AND name = ?"
    return [str(row[0]) for row in database.execute(sql, (collection.name, column))]


def whole(database: Database, collection: str) -> tuple[int, list[Change]]:
    """Every document of a collection, the damaged ones too, and the revision of this snapshot."""
    rows = database.execute(f"SELECT {_FIELDS} FROM documents WHERE collection = ?", (collection,))
    found = [change for change in map(_read, rows) if change.body is not None or change.is_damaged]
    return counter(database, "revision"), found


def newest(database: Database, collection: str) -> int:
    """The revision of the last change of a collection, which may be a deletion; 0 if it never changed."""
    found = database.execute("SELECT max(revision) FROM documents WHERE collection = ?", (collection,))
    return 0 if found[0][0] is None else _number(found[0][0])


def changed_since(database: Database, collection: str, revision: int) -> bool:
    """Whether a collection may have changed after a revision. Reads the later changes alone."""
    if counter(database, "purged") > revision:
        return True
    # By the revisions: for one collection, SQLite would read all its rows.
    later = database.execute("SELECT DISTINCT collection FROM documents WHERE revision > ?", (revision,))
    return (collection,) in later


def since(database: Database, revision: int) -> list[Change]:
    """The next page of changes after a revision, in order, the damaged ones too."""
    # No change is later than the counter. A damaged revision that is would take a reader past all changes to come.
    sql = (
        f"SELECT {_FIELDS} FROM documents WHERE revision > ? AND revision <= ({_REVISION}) ORDER BY revision"
        f" LIMIT {_PAGE}"
    )
    return [_read(row) for row in database.execute(sql, (revision,))]


def counter(database: Database, name: str) -> int:
    return _number(database.execute("SELECT value FROM counters WHERE name = ?", (name,))[0][0])


def every(database: Database) -> dict[tuple[str, str], Change]:
    """All documents of all collections by collection and key, including deleted and damaged ones."""
    rows = database.execute(f"SELECT {_FIELDS} FROM documents")
    return {(change.collection, change.key): change for change in map(_read, rows)}


def unreadable(database: Database, collections: Iterable[AnyCollection]) -> list[tuple[str, str]]:
    """Collection and key of each document that does not match its checksum, that has a revision which no change had
    yet, or that is not of the struct of its collection."""
    declared, last = {each.name: each for each in collections}, counter(database, "revision")
    return [
        place
        for place, change in every(database).items()
        if change.is_damaged or change.revision > last or not _fits(declared.get(change.collection), change)
    ]


def _fits(collection: AnyCollection | None, change: Change) -> bool:
    """Whether a document can be decoded. One of an unknown collection may be of another version of this program."""
    if collection is None or change.body is None:
        return True
    try:
        collection.decode(change.key, change.body)
    except StoreDamaged:
        return False
    return True


def announce_damaged(database: Database, collection: str, keys: Iterable[str]) -> None:
    """Have every node read these documents again. A revision is no part of the checksum, so they stay damaged."""
    for key in keys:
        raised = database.execute("UPDATE counters SET value = value + 1 WHERE name = 'revision' RETURNING value")
        place = (raised[0][0], collection, key)
        database.execute("UPDATE documents SET revision = ? WHERE collection = ? AND key = ?", place)
    database.announce()


def replace_all(database: Database, changes: Iterable[Change]) -> None:
    """Replace all documents with these. `declare` then fills their columns."""
    now = int(time.time() * 1000)
    database.execute("DELETE FROM documents")
    database.insert("documents", _COLUMNS, [_values(change, now) for change in changes])
    database.execute("DELETE FROM document_columns")
    database.execute("DELETE FROM document_indexes")
    database.announce()


def declare(database: Database, collections: Iterable[AnyCollection]) -> None:
    """Rebuild the columns of collections that were last declared with others. Runs in a transaction."""
    for collection in collections:
        columns = ",".join(sorted(collection.columns))
        stored = database.execute("SELECT columns FROM document_indexes WHERE collection = ?", (collection.name,))
        if stored and stored[0][0] == columns:
            continue
        database.execute("DELETE FROM document_columns WHERE collection = ?", (collection.name,))
        _, live = whole(database, collection.name)
        found = ((change.key, collection.column_values(change.body or "{}")) for change in live)
        rows = [(collection.name, name, value, key) for key, values in found for name, value in values.items()]
        _update_columns(database, [], rows)
        database.execute("DELETE FROM document_indexes WHERE collection = ?", (collection.name,))
        database.execute("INSERT INTO document_indexes VALUES (?, ?)", (collection.name, columns))


def forget_deleted(database: Database, before_ms: int) -> None:
    """Purge the rows of documents that were deleted long ago. Runs in a transaction.

    The last change of each collection stays, so that `newest` is the same on a node that starts later. So does a row
    that lost its body by damage: it may be a taint or a denial, and counts until somebody decides.
    """
    database.execute("UPDATE counters SET value = value WHERE name = 'revision'")
    empty = database.execute(f"SELECT {_FIELDS} FROM documents WHERE body IS NULL AND changed < ?", (before_ms,))
    deleted = [change for change in map(_read, empty) if not change.is_damaged]
    if not deleted:
        return
    last = min(max(change.revision for change in deleted), counter(database, "revision"))
    database.execute("UPDATE counters SET value = ? WHERE name = 'purged'", (last,))
    rows = database.execute("SELECT collection, max(revision) FROM documents GROUP BY collection")
    newest_of = {name: _number(revision) for name, revision in rows}
    old = [change for change in deleted if change.revision != newest_of[change.collection]]
    for chunk in in_chunks(old, _MAX_ALTERNATIVES):
        any_of = " OR ".join(["(collection = ? AND key = ?)"] * len(chunk))
        places = [text for change in chunk for text in (change.collection, change.key)]
        database.execute(f"DELETE FROM documents WHERE {any_of}", places)


_COLUMNS: Final = ("collection", "key", "version", "revision", "changed", "body", "checksum")
_FIELDS: Final = "collection, key, version, revision, body, checksum"


def _rows(database: Database, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Change]:
    """The documents at these places, including deleted ones."""
    found = {}
    for chunk in in_chunks(places, _MAX_ALTERNATIVES):
        # For a list of pairs, SQLite would read the whole table.
        any_of = " OR ".join(["(collection = ? AND key = ?)"] * len(chunk))
        sql = f"SELECT {_FIELDS} FROM documents WHERE {any_of}"
        for row in database.execute(sql, [text for place in chunk for text in place]):
            change = _checked(row)
            found[change.collection, change.key] = change
    return found


def _document(collection: Collection[T], change: Change) -> Document[T]:
    assert change.body is not None
    return Document(change.key, change.version, collection.decode(change.key, change.body))


def _checked(row: Row) -> Change:
    change = _read(row)
    if change.is_damaged:
        raise change.problem
    return change


def _read(row: Row) -> Change:
    *values, stored = row
    collection, key, version, revision, body = values
    text = body if isinstance(body, str) else None
    change = Change(str(collection), str(key), _number(version), _number(revision), text)
    if _checksum(change) == stored:
        return change
    return Change(change.collection, change.key, change.version, change.revision, None, is_damaged=True)


def _checksum(change: Change) -> int:
    """Detects a stored document that was altered."""
    body = "" if change.body is None else "." + change.body
    return zlib.crc32("\0".join((change.collection, change.key, str(change.version), body)).encode())


def _put(database: Database, changes: Sequence[Change]) -> None:
    now = int(time.time() * 1000)
    for chunk in in_chunks(changes):
        listed = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(chunk))
        database.execute(
            f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES {listed}"
            " ON CONFLICT (collection, key) DO UPDATE SET version = excluded.version, revision = excluded.revision,"
            " changed = excluded.changed, body = excluded.body, checksum = excluded.checksum",
            [value for change in chunk for value in _values(change, now)],
        )


def _values(change: Change, now: int) -> Row:
    place = (change.collection, change.key, change.version, change.revision)
    return (*place, now, change.body, _checksum(change))


def _update_columns(database: Database, removed: Sequence[Row], added: Sequence[Row]) -> None:
    for chunk in in_chunks(removed, _MAX_ALTERNATIVES):
        any_of = " OR ".join(["(collection = ? AND name = ? AND value = ? AND key = ?)"] * len(chunk))
        database.execute(f"DELETE FROM document_columns WHERE {any_of}", [value for row in chunk for value in row])
    if added:
        database.insert("document_columns", ("collection", "name", "value", "key"), added)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise StoreDamaged("the store holds another value where a number belongs", operator_text=repr(value))
    return value
