"""A collection in memory that follows the store, for reads on the hot path that must not wait.

Changes arrive twice, from the local commit and from the feed, in any order. The mirror applies each once and never
replaces a newer version with an older one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from .collection import Collection, Document
from .documents import Change
from .errors import StoreDamaged, WrongChecksum

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=msgspec.Struct)
Listener = Callable[[str, T | None], None]


class _Entry(msgspec.Struct, Generic[T], frozen=True):
    """The newest known state of a document. A deleted one stays while an older change may still arrive."""

    version: int
    revision: int
    document: Document[T] | None
    problem: StoreDamaged | None = None
    """Why the document cannot be read."""

    @property
    def is_deleted(self) -> bool:
        return self.document is None and self.problem is None


class Mirror(Generic[T]):
    """The documents of a collection, by key. Used on the loop's thread alone."""

    def __init__(self, collection: Collection[T]) -> None:
        self.collection = collection
        self.revision = 0
        """The store's revision of the newest change, deletions too. Nodes that know the same changes agree on it."""
        self.generation = 0
        """Grows with every change, so that data derived from the documents can be recognized as outdated."""
        self.problems: dict[str, StoreDamaged] = {}
        """The documents that cannot be read, by key, until they are replaced or deleted."""
        self.loading = 0
        """How many reads of the whole collection are in progress."""
        self._entries: dict[str, _Entry[T]] = {}
        self._deleted: set[str] = set()
        self._listeners: list[Listener[T]] = []

    @property
    def problem(self) -> StoreDamaged | None:
        """Why a document cannot be read. While there is one, every read but `readable` and the lookups raises it."""
        return next(iter(self.problems.values()), None)

    def get(self, key: str) -> T | None:
        found = self.document(key)
        return None if found is None else found.value

    def document(self, key: str) -> Document[T] | None:
        """A document with the version that a change of it must name."""
        self._check()
        entry = self._entries.get(key)
        return None if entry is None else entry.document

    def values(self) -> Iterator[T]:
        self._check()
        return self.readable()

    def readable(self) -> Iterator[T]:
        """The documents that can be read, for readers that treat the others by their keys."""
        return (entry.document.value for entry in self._entries.values() if entry.document is not None)

    def lookup(self, key: str) -> T | None:
        """The document of a key, whether others can be read or not; None if it cannot be read itself.

        Only for collections in which a missing document permits nothing.
        """
        found = self.lookup_document(key)
        return None if found is None else found.value

    def lookup_document(self, key: str) -> Document[T] | None:
        """The same with the version that a change of it must name."""
        entry = self._entries.get(key)
        return None if entry is None else entry.document

    def doubts(self, is_of: Callable[[str], bool]) -> bool:
        """Whether a document that cannot be read may be one of some keys. Where its checksum is wrong, its key may be
        wrong as well, so it may be of anybody."""
        return any(isinstance(problem, WrongChecksum) or is_of(key) for key, problem in self.problems.items())

    def __len__(self) -> int:
        return len(self._entries) - len(self._deleted)

    def on_change(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` with the key and new value of every change. Returns how to stop.

        The value is None for a document that was deleted or cannot be read. A listener that raises keeps no other
        change from being applied.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def replay_to(self, listener: Listener[T]) -> None:
        """Call `listener` with every document that can be read, then with every change."""
        for key, entry in list(self._entries.items()):
            if entry.document is not None:
                listener(key, entry.document.value)
        self.on_change(listener)

    def apply(self, change: Change) -> None:
        """Apply a change, unless it or a later one of the same document is known."""
        self.revision = max(self.revision, change.revision)
        entry = self._entries.get(change.key)
        if change.is_damaged:
            # Its version may be wrong as well, and it may be a deletion: whatever was known is in doubt.
            self._set(change.key, _Entry(0 if entry is None else entry.version, change.revision, None, change.problem))
            return
        if entry is not None and entry.version >= change.version:
            return
        document: Document[T] | None = None
        problem: StoreDamaged | None = None
        if change.body is not None:
            try:
                document = Document(change.key, change.version, self.collection.decode(change.key, change.body))
            except StoreDamaged as found:
                problem = found
        self._set(change.key, _Entry(change.version, change.revision, document, problem))

    def follow(self, document: Document[T]) -> None:
        """Apply a document that was just read from the store, before the change of another node arrives."""
        self.apply(
            Change(self.collection.name, document.key, document.version, 0, self.collection.encode(document.value))
        )

    def load(self, changes: Sequence[Change], revision: int, newest: int = 0) -> None:
        """Apply the whole collection as it was at a revision. `newest` is the revision of its last change so far."""
        self.revision = max(self.revision, newest)
        for change in changes:
            self.apply(change)
        listed = {change.key for change in changes}
        for key, entry in list(self._entries.items()):
            if not entry.is_deleted and entry.revision <= revision and key not in listed:
                self._set(key, _Entry(entry.version, revision, None))

    def settle(self, revision: int) -> None:
        """Forget deletions up to this revision: no older change can arrive, unless a read of all is in progress."""
        if self.loading:
            return
        for key in [key for key in self._deleted if self._entries[key].revision <= revision]:
            del self._entries[key]
            self._deleted.remove(key)

    def _check(self) -> None:
        if self.problems:
            raise next(iter(self.problems.values()))

    def _set(self, key: str, entry: _Entry[T]) -> None:
        before = self._entries.get(key)
        self._entries[key] = entry
        if entry.problem is None:
            self.problems.pop(key, None)
        else:
            self.problems[key] = entry.problem
        if entry.is_deleted:
            self._deleted.add(key)
            if before is None or before.is_deleted:
                # The deletion arrived a second time, after the mirror had forgotten it.
                return
        else:
            self._deleted.discard(key)
        self.generation += 1
        for listener in tuple(self._listeners):
            try:
                listener(key, None if entry.document is None else entry.document.value)
            except Exception:  # such as one that reads this mirror while a document cannot be decoded
                _log.exception("a change of %s could not be followed", self.collection.name)
