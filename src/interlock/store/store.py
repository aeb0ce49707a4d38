"""The store: documents with versions, in transactions; read from a few threads, written by one.

A transaction is optimistic: what it read must still be so when it commits, or it is a Conflict and changed nothing. It
never waits for a slow reader, a person or another node.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import documents
from .backup import restore, write_backup
from .collection import Collection, Document
from .database import Database, connect, sqlite_path, transaction
from .documents import AnyCollection, Change, Changes, Wish
from .errors import StoreError
from .mirror import Mirror
from .readers import Readers
from .schema import bring_up
from .writer import Done, Work, Writer

if TYPE_CHECKING:
    from .feed import Feed

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")
Keeper = Callable[[Changes, Sequence[object]], Awaitable[list[Change]]]
"""Commits changes together with the records of them."""


class Store:
    """An open store. Made by `Store.open`, used on one loop."""

    def __init__(self, where: str, collections: Sequence[AnyCollection]) -> None:
        self.where = where
        self._collections = {collection.name: collection for collection in collections}
        if len(self._collections) != len(collections):
            raise ValueError("two collections have the same name")
        self._mirrors: dict[str, Mirror[Any]] = {}
        self._reloading: set[asyncio.Task[None]] = set()
        self._writer = Writer(lambda: connect(where))
        self._readers = Readers(where)
        self._keeper: Keeper | None = None
        self._feed: Feed | None = None
        if self._writer.shared:
            from .feed import Feed

            self._feed = Feed(where, self.deliver, self._reload)

    @classmethod
    async def open(
        cls, where: str | Path, collections: Sequence[AnyCollection] = (), *, backups: Path | None = None
    ) -> Store:
        """Open a path, a `sqlite:` or a `postgresql:` URL, and bring its schema to this version.

        Before an older schema is changed, a backup is written to the folder `backups`: beside the file, if nothing is
        said; for PostgreSQL it must be said.
        """
        name = str(where)
        await asyncio.to_thread(_prepare, name, collections, backups)
        return cls(name, collections)

    async def close(self) -> None:
        """Write what waits, then end every connection."""
        if self._feed is not None:
            await self._feed.close()
        for task in self._reloading:
            task.cancel()
        await self._writer.close()
        await asyncio.to_thread(self._readers.close)

    async def get(self, collection: Collection[T], key: str) -> Document[T] | None:
        """One document, with the version to change it by."""
        return await self.read(lambda database: documents.get(database, collection, key))

    async def find(self, collection: Collection[T], **columns: object) -> list[Document[T]]:
        """Every document whose declared columns have these values, by key; without any, all of them."""
        return await self.read(lambda database: documents.find(database, collection, columns))

    async def keys(self, collection: AnyCollection) -> list[str]:
        """The keys of every document of a collection."""
        return await self.read(lambda database: documents.keys(database, collection.name))

    def transaction(self) -> Transaction:
        """`async with store.transaction() as change:` commits at its end; an exception inside drops it."""
        return Transaction(self)

    async def mirror(self, collection: Collection[T]) -> Mirror[T]:
        """The collection in memory, following every change from now on. There is one for each collection."""
        self._declared(collection)
        known = self._mirrors.get(collection.name)
        if known is not None:
            return known
        mirror = Mirror(collection)
        # It hears changes while it loads: whichever of the two is newer stays.
        self._mirrors[collection.name] = mirror
        await self._load(mirror)
        return mirror

    def behind_s(self) -> float:
        """For how long changes by other nodes may have gone unheard. A hub that cannot know must refuse in time."""
        return 0.0 if self._feed is None else time.monotonic() - self._feed.looked

    async def read(self, query: Callable[[Database], R]) -> R:
        """Run a query on a reading thread; it sees one moment of the database."""
        return await asyncio.wrap_future(self._readers.submit(query))

    def write(self, work: Work, done: Done) -> None:
        """Have work done by the writer, in one commit with whatever else waits; `done` is called on the loop.

        The work may be run again if its neighbours made the first attempt fail. Raises StoreError if it cannot wait.
        """
        self._writer.submit(work, done)

    async def commit(self, work: Callable[[Database], R], then: Callable[[R], None] | None = None) -> R:
        """Have work done by the writer, and wait for the commit; `then` is called with it, before anyone goes on."""
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

    def keep_records(self, keeper: Keeper) -> None:
        """From now on transactions may have records: `keeper` commits the two as one."""
        self._keeper = keeper

    async def change(self, changes: Changes, records: Sequence[object] = ()) -> dict[tuple[str, str], int]:
        """Commit changes. In-memory copies have followed when this returns. Gives the new versions."""
        for wish in changes.wishes:
            self._declared(wish.collection)
        if not records:
            done = await self.commit(lambda database: documents.apply(database, changes), self.deliver)
        elif self._keeper is None:
            raise ValueError("nobody keeps the records of this store")
        else:
            done = await self._keeper(changes, records)
        return {(change.collection, change.key): change.version for change in done}

    async def backup(self, path: Path) -> None:
        """Write everything to one file, as of one moment, while work goes on."""
        await asyncio.to_thread(_backup, self.where, path)

    async def restore(self, path: Path) -> None:
        """Make the documents those of a backup, and add the records that are missing here."""
        loop = asyncio.get_running_loop()

        def write(work: Callable[[Database], R], then: Callable[[R], None] | None = None) -> None:
            asyncio.run_coroutine_threadsafe(self.commit(work, then), loop).result()

        await asyncio.to_thread(restore, path, write, tuple(self._collections.values()), self.deliver)

    def deliver(self, changes: list[Change], settled: int | None = None) -> None:
        """Have the mirrors follow. What a feed has read is settled; without a feed there is one way to hear of it."""
        for change in changes:
            mirror = self._mirrors.get(change.collection)
            if mirror is not None:
                mirror.apply(change)
        if self._feed is None:
            settled = sys.maxsize
        if settled is not None:
            for mirror in self._mirrors.values():
                mirror.settle(settled)

    async def _load(self, mirror: Mirror[Any]) -> None:
        name = mirror.collection.name
        mirror.loading += 1
        try:
            revision, found = await self.read(lambda database: documents.whole(database, name))
            mirror.take(found, revision)
        finally:
            mirror.loading -= 1

    def _reload(self) -> None:
        """Deletions may have been missed for too long to be told one by one."""
        for mirror in self._mirrors.values():
            task = asyncio.ensure_future(self._load(mirror))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    def _declared(self, collection: AnyCollection) -> None:
        if self._collections.get(collection.name) is not collection:
            raise ValueError(f"collection {collection.name!r} was not declared when the store was opened")


class Transaction:
    """What one transaction read, and what it wants."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expected: dict[tuple[str, str], int] = {}
        self._wishes: dict[tuple[str, str], Wish] = {}
        self._records: list[object] = []
        self.versions: dict[tuple[str, str], int] = {}
        """After the commit: the new version of everything that was changed, by collection and key."""

    async def get(self, collection: Collection[T], key: str) -> Document[T] | None:
        """A document as it is stored. It must still be so at the commit."""
        found = await self._store.get(collection, key)
        self.expect(collection, key, 0 if found is None else found.version)
        return found

    def expect(self, collection: AnyCollection, key: str, version: int) -> None:
        """Commit only if the document has this version then; 0: only if there is none."""
        self._expected.setdefault((collection.name, key), version)

    def insert(self, collection: Collection[T], value: T) -> None:
        """Store a new document. One with the same key makes it a Conflict."""
        self.expect(collection, collection.key_of(value), 0)
        self.put(collection, value)

    def put(self, collection: Collection[T], value: T) -> None:
        """Store a document, over an older one if there is one."""
        key = collection.key_of(value)
        self._wishes[collection.name, key] = Wish(collection, key, collection.encode(value))

    def delete(self, collection: AnyCollection, key: str) -> None:
        """Delete a document, if there is one."""
        self._wishes[collection.name, key] = Wish(collection, key, None)

    def record(self, *records: object) -> None:
        """Have what this does recorded, in the same commit: neither is ever there without the other."""
        self._records += records

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and (self._expected or self._wishes):
            self.versions = await self._store.change(
                Changes(self._expected, tuple(self._wishes.values())), self._records
            )


def _prepare(where: str, collections: Sequence[AnyCollection], backups: Path | None) -> None:
    database = connect(where)
    try:
        bring_up(database, lambda number: _back_up_before(database, where, number, backups))
        with transaction(database, alone=True):
            documents.declare(database, collections)
            documents.forget_deleted(database, int(time.time() * 1000) - documents.KEEP_DELETED_MS)
    finally:
        database.close()


def _back_up_before(database: Database, where: str, number: int, backups: Path | None) -> None:
    if backups is None:
        if database.shared:
            raise StoreError("the schema is older than this version", "name a folder for the backup that is made first")
        backups = sqlite_path(where).parent
    write_backup(database, backups / f"schema-{number}-{time.strftime('%Y%m%dT%H%M%S')}.backup.db")


def _backup(where: str, path: Path) -> None:
    database = connect(where, read_only=True)
    try:
        write_backup(database, path)
    finally:
        database.close()
