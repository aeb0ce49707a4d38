"""Documents in the database: what a set of changes does, and how documents are found. Runs on the store's threads.

Every change raises the one revision counter and holds it until the commit: so the changes of all nodes have one order.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from .collection import Collection, Document, column_text
from .database import Database, Row, in_chunks
from .errors import Conflict, StoreDamaged
from .writer import refuse

T = TypeVar("T", bound=msgspec.Struct)
AnyCollection = Collection[Any]

KEEP_DELETED_MS: Final = 24 * 3600 * 1000
"""How long a deletion is remembered for nodes that did not hear of it."""
_PAGE: Final = 1000
_MOST_ALTERNATIVES: Final = 64


class Change(msgspec.Struct, frozen=True):
    """What became of a document: its body, or None once it is deleted."""

    collection: str
    key: str
    version: int
    revision: int
    body: str | None


class Wish(msgspec.Struct, frozen=True):
    """What should become of a document."""

    collection: AnyCollection
    key: str
    body: str | None


class Changes(msgspec.Struct, frozen=True):
    """What a transaction wants, and what must still be so: version by document, 0 for one that must not exist."""

    expected: Mapping[tuple[str, str], int]
    wishes: Sequence[Wish]


def apply(database: Database, changes: Changes) -> list[Change]:
    """Do all of it, or raise Conflict with nothing changed."""
    # A revision that is counted and then not used harms nobody, so a conflict may still refuse after this.
    count = len(changes.wishes)
    raised = database.execute("UPDATE counters SET value = value + ? WHERE name = 'revision' RETURNING value", (count,))
    revision = _number(raised[0][0]) - count
    places = dict.fromkeys((*changes.expected, *((wish.collection.name, wish.key) for wish in changes.wishes)))
    found = _rows(database, list(places))
    for place, expected in changes.expected.items():
        old = found.get(place)
        if expected != (0 if old is None or old.body is None else old.version):
            raise refuse(Conflict(f"{place[0]} {place[1]!r} was changed meanwhile"))
    done: list[Change] = []
    gone: list[Row] = []
    new: list[Row] = []
    for offset, wish in enumerate(changes.wishes, 1):
        name = wish.collection.name
        old = found.get((name, wish.key))
        if wish.body is None and (old is None or old.body is None):
            continue
        done.append(Change(name, wish.key, 1 if old is None else old.version + 1, revision + offset, wish.body))
        had = {} if old is None or old.body is None else wish.collection.column_values(old.body)
        has = {} if wish.body is None else wish.collection.column_values(wish.body)
        gone += [(name, *column, wish.key) for column in had.items() - has.items()]
        new += [(name, *column, wish.key) for column in has.items() - had.items()]
    _put(database, done)
    _move_columns(database, gone, new)
    if done:
        database.announce()
    return done


def get(database: Database, collection: Collection[T], key: str) -> Document[T] | None:
    """One document."""
    found = _rows(database, [(collection.name, key)]).get((collection.name, key))
    return None if found is None or found.body is None else document(collection, found)


def standing(database: Database, changes: Changes) -> list[Change]:
    """How the documents that changes are about stand now, the deleted ones too."""
    return list(_rows(database, [(wish.collection.name, wish.key) for wish in changes.wishes]).values())


def find(database: Database, collection: Collection[T], columns: Mapping[str, object]) -> list[Document[T]]:
    """Every document whose columns have these values, by key."""
    sql = f"SELECT {_FIELDS} FROM documents WHERE collection = ? AND body IS NOT NULL"
    values: list[str] = [collection.name]
    for name, value in columns.items():
        if name not in collection.columns:
            raise ValueError(f"{collection.name} is not declared to be found by {name!r}")
        sql += " AND key IN (SELECT key FROM document_columns WHERE collection = ? AND name = ? AND value = ?)"
        values += [collection.name, name, column_text(value)]
    rows = database.execute(sql + " ORDER BY key", values)
    return [document(collection, _checked(row)) for row in rows]


def keys(database: Database, collection: str) -> list[str]:
    """The keys of a collection, in order."""
    sql = "SELECT key FROM documents WHERE collection = ? AND body IS NOT NULL ORDER BY key"
    return [str(row[0]) for row in database.execute(sql, (collection,))]


def whole(database: Database, collection: str) -> tuple[int, list[Change]]:
    """Every document of a collection, and the revision at which that was so."""
    sql = f"SELECT {_FIELDS} FROM documents WHERE collection = ? AND body IS NOT NULL"
    rows = database.execute(sql, (collection,))
    return counter(database, "revision"), [_checked(row) for row in rows]


def since(database: Database, revision: int) -> list[Change]:
    """The next changes after a revision, in order; not all, if there are many."""
    sql = f"SELECT {_FIELDS} FROM documents WHERE revision > ? ORDER BY revision LIMIT {_PAGE}"
    return [_checked(row) for row in database.execute(sql, (revision,))]


def counter(database: Database, name: str) -> int:
    """One of the counters."""
    return _number(database.execute("SELECT value FROM counters WHERE name = ?", (name,))[0][0])


def document(collection: Collection[T], change: Change) -> Document[T]:
    """The document that a change left behind."""
    assert change.body is not None
    return Document(change.key, change.version, collection.decode(change.key, change.body))


def every(database: Database) -> dict[tuple[str, str], Change]:
    """All documents of all collections, the deleted ones too, by collection and key."""
    rows = database.execute(f"SELECT {_FIELDS} FROM documents")
    return {(change.collection, change.key): change for change in map(_checked, rows)}


def replace_all(database: Database, changes: Iterable[Change]) -> None:
    """Make these all the documents there are, as they are given. Their columns are left to `declare`."""
    now = int(time.time() * 1000)
    database.execute("DELETE FROM documents")
    database.insert("documents", _COLUMNS, [_values(change, now) for change in changes])
    database.execute("DELETE FROM document_columns")
    database.execute("DELETE FROM document_indexes")
    database.announce()


def declare(database: Database, collections: Iterable[AnyCollection]) -> None:
    """Index anew what was stored when a collection was declared with other columns. Runs in a transaction."""
    for collection in collections:
        columns = ",".join(sorted(collection.columns))
        had = database.execute("SELECT columns FROM document_indexes WHERE collection = ?", (collection.name,))
        if had and had[0][0] == columns:
            continue
        database.execute("DELETE FROM document_columns WHERE collection = ?", (collection.name,))
        _, live = whole(database, collection.name)
        found = ((change.key, collection.column_values(change.body or "{}")) for change in live)
        rows = [(collection.name, name, value, key) for key, values in found for name, value in values.items()]
        _move_columns(database, [], rows)
        database.execute("DELETE FROM document_indexes WHERE collection = ?", (collection.name,))
        database.execute("INSERT INTO document_indexes VALUES (?, ?)", (collection.name, columns))


def forget_deleted(database: Database, before_ms: int) -> None:
    """Drop what is left of documents that were deleted long ago. Runs in a transaction."""
    database.execute("UPDATE counters SET value = value WHERE name = 'revision'")
    last = database.execute("SELECT max(revision) FROM documents WHERE body IS NULL AND changed < ?", (before_ms,))
    if last[0][0] is not None:
        database.execute("UPDATE counters SET value = ? WHERE name = 'purged'", (last[0][0],))
        database.execute("DELETE FROM documents WHERE body IS NULL AND changed < ?", (before_ms,))


def checksum(collection: str, key: str, version: int, body: str | None) -> int:
    """Tells a flipped bit from a document."""
    return zlib.crc32("\0".join((collection, key, str(version), "" if body is None else "." + body)).encode())


_COLUMNS: Final = ("collection", "key", "version", "revision", "changed", "body", "checksum")
_FIELDS: Final = "collection, key, version, revision, body, checksum"


def _rows(database: Database, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Change]:
    """The documents in these places, deleted ones too."""
    found = {}
    for chunk in in_chunks(places, _MOST_ALTERNATIVES):
        # Not a list of pairs: for that SQLite would read the whole table.
        any_of = " OR ".join(["(collection = ? AND key = ?)"] * len(chunk))
        sql = f"SELECT {_FIELDS} FROM documents WHERE {any_of}"
        for row in database.execute(sql, [text for place in chunk for text in place]):
            change = _checked(row)
            found[change.collection, change.key] = change
    return found


def _checked(row: Row) -> Change:
    collection, key, version, revision, body, sum_ = row
    if checksum(str(collection), str(key), _number(version), body if isinstance(body, str) else None) != sum_:
        raise StoreDamaged(f"{collection!s} {key!r} is not what was written")
    return Change(
        str(collection), str(key), _number(version), _number(revision), body if isinstance(body, str) else None
    )


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
    sum_ = checksum(change.collection, change.key, change.version, change.body)
    return (change.collection, change.key, change.version, change.revision, now, change.body, sum_)


def _move_columns(database: Database, gone: Sequence[Row], new: Sequence[Row]) -> None:
    for chunk in in_chunks(gone, _MOST_ALTERNATIVES):
        any_of = " OR ".join(["(collection = ? AND name = ? AND value = ? AND key = ?)"] * len(chunk))
        database.execute(f"DELETE FROM document_columns WHERE {any_of}", [value for row in chunk for value in row])
    if new:
        database.insert("document_columns", ("collection", "name", "value", "key"), new)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise StoreDamaged(f"{value!r} stands where a number was written")
    return value
