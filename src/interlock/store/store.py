"""The store: versioned documents in transactions. A few threads read, one writes.

Transactions are optimistic: the documents it read must be unchanged at the commit, otherwise it raises Conflict and
changes nothing. A transaction never waits for a slow reader, a person or another node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from . import documents
from .backup import Also, restore, write_backup
from .collection import Collection, Document, column_text
from .connect import connect, database_file, sqlite_path
from .database import Database, transaction
from .documents import AnyCollection, Change, Changes, Edit
from .errors import StoreDamaged, StoreError, StoreUnavailable, WrongChecksum
from .feed import Feed, now_s
from .mirror import Mirror
from .readers import Readers
from .schema import SchemaUpgrade, bring_up, schema_number
from .writer import Done, Work, Writer

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")
CLAIM_S: Final = 5.0
"""How long a hub waits for the name of its node."""
MAX_ANNOUNCED: Final = 100
"""Damaged documents of a collection that a node tells others of when it loads the collection."""
TAKEN: Final = (
    "stop that hub, or give each hub a `node` of its own in [hub]; a hub whose machine died is forgotten within half"
    " a minute"
)
RecordedCommit = Callable[[Changes, Sequence[object]], Awaitable[list[Change]]]
"""Commits changes together with their audit records."""


class Store:
    """An open store. Created by `Store.open` and used on one loop."""

    def __init__(
        self,
        where: str,
        collections: Sequence[AnyCollection],
        revision: int,
        upgrade: SchemaUpgrade | None = None,
        node: str | None = None,
    ) -> None:
        self.where = where
        self.upgrade = upgrade
        """Set where opening it upgraded its schema."""
        self._collections = {collection.name: collection for collection in collections}
        if len(self._collections) != len(collections):
            raise ValueError("two collections have the same name")
        self._mirrors: dict[str, Mirror[Any]] = {}
        self._unreadable: dict[str, dict[str, StoreDamaged]] = {}
        """The documents without a mirror that could not be read, by collection and key."""
        self._reloading: set[asyncio.Task[None]] = set()
        file = database_file(where)
        self._writer = Writer(lambda: connect(where, file=file))
        self._readers = Readers(where)
        self._commit_recorded: RecordedCommit | None = None
        self.feed = Feed(where, revision, self.deliver, self._reload, node)

    @classmethod
    async def open(
        cls,
        where: str | Path,
        collections: Sequence[AnyCollection] = (),
        *,
        backups: Path | None = None,
        node: str | None = None,
    ) -> Store:
        """Open a path, a `sqlite:` or a `postgresql:` URL, and upgrade its schema to this version.

        Before an upgrade, a backup is written to the folder `backups`; by default beside the SQLite file. PostgreSQL
        has no default. `node` is a name that no other process may hold for the database meanwhile.
        """
        name = str(where)
        revision, upgrade = await asyncio.to_thread(_prepare, name, collections, backups)
        store = cls(name, collections, revision, upgrade, node)
        if node is not None:
            await store._claim(node)
        return store

    async def _claim(self, node: str) -> None:
        """Wait until this hub holds the name of its node. Raises StoreError while another does, or nobody can say."""
        try:
            # A hub that is started again may come while the one before it still closes.
            async with asyncio.timeout(CLAIM_S):
                await self.feed.claimed.wait()
        except TimeoutError:
            holder, failure = self.feed.holder, self.feed.failure
            await self.close()
            if holder is None:
                message = f"the store could not be asked which hub is the node {node!r}"
                if failure is None:
                    raise StoreUnavailable(message, operator_text="no answer came") from None
                raise StoreUnavailable(message, failure.hint, operator_text=failure.for_operators) from failure
            raise StoreError(f"another hub is the node {node!r} of this store: {holder}", TAKEN) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Write the queued changes, then close every connection."""
        await self.feed.close()
        for task in self._reloading:
            task.cancel()
        # The last connection empties SQLite's log into the database, if it may write.
        await asyncio.to_thread(self._readers.close)
        await self._writer.close()

    async def get(self, collection: Collection[T], key: str) -> Document[T] | None:
        """One document, with the version that a change of it must name."""
        return await self.read(lambda database: documents.get(database, collection, key))

    async def find(self, collection: Collection[T], **columns: object) -> list[Document[T]]:
        """Every document whose columns have these values, by key; without values, all documents."""
        return await self.read(lambda database: documents.find(database, collection, columns))

    async def find_readable(self, collection: Collection[T], **columns: object) -> tuple[list[Document[T]], bool]:
        """The same without the documents that cannot be read, and whether there are any. `problems` names them."""
        found, problems = await self.read(lambda database: documents.find_readable(database, collection, columns))
        if problems:
            self._unreadable.setdefault(collection.name, {}).update(problems)
        return found, bool(problems)

    async def keys(self, collection: AnyCollection) -> list[str]:
        return await self.read(lambda database: documents.keys(database, collection.name))

    async def values(self, collection: AnyCollection, column: str) -> list[str]:
        """The different values of a column, as text."""
        return await self.read(lambda database: documents.values(database, collection, column))

    def transaction(self) -> Transaction:
        """`async with store.transaction() as change:` commits at its end; an exception inside discards it."""
        return Transaction(self)

    async def mirror(self, collection: Collection[T]) -> Mirror[T]:
        """The collection in memory, following every change from now on. Each collection has one mirror."""
        self._check_declared(collection)
        known = self._mirrors.get(collection.name)
        if known is not None:
            return known
        mirror = Mirror(collection)
        # The mirror receives changes while it loads. It keeps the newer version of each document.
        self._mirrors[collection.name] = mirror
        await self._load(mirror)
        return mirror

    def problems(self) -> dict[str, dict[str, StoreDamaged]]:
        """The documents that cannot be read, by collection and key."""
        return self._unreadable | {name: mirror.problems for name, mirror in self._mirrors.items() if mirror.problems}

    def behind_s(self) -> float:
        """For how long changes by other nodes may be unknown here. The hub refuses calls when this grows too long."""
        return now_s() - self.feed.current_at

    async def read(self, query: Callable[[Database], R]) -> R:
        """Run a query on a reader thread; it sees a snapshot of the database."""
        try:
            return await asyncio.wrap_future(self._readers.submit(query))
        except WrongChecksum as damage:
            await self._announce(damage)
            raise

    def write(self, work: Work, done: Done) -> None:
        """Queue work for the writer, which commits it with other waiting work and calls `done` on the loop.

        The work may run again if other work in its group failed. Raises StoreError if the queue does not accept it.
        """
        self._writer.submit(work, done)

    async def commit(self, work: Callable[[Database], R], then: Callable[[R], None] | None = None) -> R:
        """Run work on the writer and wait for the commit. Calls `then` with the result before any waiter continues."""
        waiting: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: StoreError | None) -> None:
            if error is None and then is not None:
                then(result)
            if waiting.done():
                return
            if error is None:
                waiting.set_result(result)
            else:
                waiting.set_exception(error)

        self.write(work, done)
        return await waiting

    def commit_records_with(self, commit: RecordedCommit) -> None:
        """Use `commit` for transactions that have audit records. It commits both in one."""
        self._commit_recorded = commit

    async def change(self, changes: Changes, records: Sequence[object] = ()) -> dict[tuple[str, str], int]:
        """Commit changes and return the new versions. The mirrors have followed when this returns."""
        for edit in changes.edits:
            self._check_declared(edit.collection)
        try:
            if not records:
                done = await self.commit(lambda database: documents.apply(database, changes), self.deliver)
            elif self._commit_recorded is None:
                raise ValueError("this store has no recorder for audit records")
            else:
                done = await self._commit_recorded(changes, records)
        except WrongChecksum as damage:
            await self._announce(damage)
            raise
        return {(change.collection, change.key): change.version for change in done}

    async def backup(self, path: Path) -> None:
        """Write a snapshot of everything to one file, while other work continues."""

        def copy() -> None:
            with closing(connect(self.where, read_only=True)) as database:
                write_backup(database, path)

        await asyncio.to_thread(copy)

    async def restore(self, path: Path, also: Also = lambda database: []) -> None:
        """Replace the documents with those of a backup, and add missing audit log rows.

        `also` runs in the commit that replaces the documents.
        """
        loop = asyncio.get_running_loop()

        def write(work: Callable[[Database], R], then: Callable[[R], None] | None) -> R:
            return asyncio.run_coroutine_threadsafe(self.commit(work, then), loop).result()

        await asyncio.to_thread(restore, path, write, tuple(self._collections.values()), self.deliver, also)

    def deliver(self, changes: list[Change], settled: int | None = None) -> None:
        """Apply changes to the mirrors. `settled` is the revision up to which the feed has read."""
        for change in changes:
            mirror = self._mirrors.get(change.collection)
            if mirror is not None:
                mirror.apply(change)
        if settled is not None:
            for mirror in self._mirrors.values():
                mirror.settle(settled)

    async def _announce(self, damage: WrongChecksum) -> None:
        """Tell the mirrors of all nodes of a document that was damaged after they had read it, where they need it."""
        mirror = self._mirrors.get(damage.collection)
        if mirror is not None and mirror.collection.shares_damage and damage.key not in mirror.problems:
            with suppress(StoreError):  # The next read of it tries again.
                await self.commit(partial(documents.announce_damaged, collection=damage.collection, keys=[damage.key]))

    async def _load(self, mirror: Mirror[Any]) -> None:
        name, known = mirror.collection.name, {*mirror.problems}
        mirror.loading += 1
        try:
            (revision, found), newest = await self.read(
                lambda database: (documents.whole(database, name), documents.newest(database, name))
            )
            mirror.load(found, revision, newest)
        finally:
            mirror.loading -= 1
        if not mirror.collection.shares_damage:
            return
        damaged = (problem for problem in mirror.problems.values() if isinstance(problem, WrongChecksum))
        if keys := [problem.key for problem in damaged if problem.key not in known][:MAX_ANNOUNCED]:
            # Other nodes may have read them before they were damaged, and must take the same doubt into account.
            await self.commit(partial(documents.announce_damaged, collection=name, keys=keys))

    def _reload(self) -> None:
        """Load every mirror again: deletions that the feed missed may have been purged."""
        for mirror in self._mirrors.values():
            task = asyncio.ensure_future(self._load(mirror))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    def _check_declared(self, collection: AnyCollection) -> None:
        if self._collections.get(collection.name) is not collection:
            raise ValueError(f"collection {collection.name!r} was not declared when the store was opened")


class Transaction:
    """The reads and edits of one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expected: dict[tuple[str, str], int] = {}
        self._edits: dict[tuple[str, str], Edit] = {}
        self._found: dict[tuple[str, str, str], frozenset[str]] = {}
        self._records: list[object] = []
        self.versions: dict[tuple[str, str], int] = {}
        """After the commit: the new version of each changed document, by collection and key."""

    async def get(self, collection: Collection[T], key: str) -> Document[T] | None:
        """Read a document, which must be unchanged at the commit."""
        found = await self._store.get(collection, key)
        self.expect(collection, key, 0 if found is None else found.version)
        return found

    async def find(self, collection: Collection[T], column: str, value: object) -> list[Document[T]]:
        """Read the documents with a value in a column. At the commit there must be no others with it, and all of these;
        they themselves may have changed."""
        found = await self._store.find(collection, **{column: value})
        self._found[collection.name, column, column_text(value)] = frozenset(document.key for document in found)
        return found

    def expect(self, collection: AnyCollection, key: str, version: int) -> None:
        """Commit only if the document has this version; 0: only if it does not exist."""
        self._expected.setdefault((collection.name, key), version)

    def insert(self, collection: Collection[T], value: T) -> None:
        """Store a new document. The commit raises Conflict if its key exists."""
        self.expect(collection, collection.key_of(value), 0)
        self.put(collection, value)

    def put(self, collection: Collection[T], value: T) -> None:
        """Store a document, replacing an existing one."""
        key = collection.key_of(value)
        self._edits[collection.name, key] = Edit(collection, key, collection.encode(value))

    def delete(self, collection: AnyCollection, key: str) -> None:
        """Delete a document, if it exists."""
        self._edits[collection.name, key] = Edit(collection, key, None)

    def record(self, *records: object) -> None:
        """Add audit records to the same commit: neither the change nor the records exist alone."""
        self._records += records

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and (self._expected or self._edits or self._records):
            changes = Changes(self._expected, tuple(self._edits.values()), self._found)
            self.versions = await self._store.change(changes, self._records)


def _prepare(
    where: str, collections: Sequence[AnyCollection], backups: Path | None
) -> tuple[int, SchemaUpgrade | None]:
    """Upgrade the schema and declare the collections. Returns the revision, and the upgrade where one was needed."""
    saved: list[tuple[int, Path]] = []
    with closing(connect(where)) as database:
        bring_up(database, lambda number: saved.append((number, back_up_before(database, where, number, backups))))
        upgrade = SchemaUpgrade(saved[0][0], schema_number(database), str(saved[0][1])) if saved else None
        with transaction(database, exclusive=True):
            documents.declare(database, collections)
            documents.forget_deleted(database, int(time.time() * 1000) - documents.KEEP_DELETED_MS)
        return documents.counter(database, "revision"), upgrade


def back_up_before(database: Database, where: str, number: int, backups: Path | None) -> Path:
    """Write a backup of a database whose schema has this number. Returns its path."""
    if backups is None:
        if database.shared:
            raise StoreError("the schema is older than this version", "name a folder for the backup before the upgrade")
        backups = sqlite_path(where).parent
    path = backups / f"schema-{number}-{time.strftime('%Y%m%dT%H%M%S')}.backup.db"
    write_backup(database, path)
    return path
