"""A collection in memory, following the store: what the hub asks on its hot path, without waiting.

A change is applied once and never undone by an older one, in whatever order the two ways of hearing of it bring it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from .collection import Collection, Document
from .documents import Change
from .errors import StoreDamaged

T = TypeVar("T", bound=msgspec.Struct)
Heard = Callable[[str, T | None], None]


class _Known(msgspec.Struct, Generic[T], frozen=True):
    """The latest that is known of a document; a deleted one is remembered while an older change may still arrive."""

    version: int
    revision: int
    document: Document[T] | None


class Mirror(Generic[T]):
    """The documents of a collection, by key. Used on the loop's thread alone."""

    def __init__(self, collection: Collection[T]) -> None:
        self.collection = collection
        self.generation = 0
        """Grows with every change, so that what was made from the documents can tell that it is old."""
        self.problem: StoreDamaged | None = None
        """Set when a change could not be read. From then on nothing is answered from here: in doubt, refuse."""
        self.loading = 0
        """How many looks at the whole collection are under way."""
        self._known: dict[str, _Known[T]] = {}
        self._deleted: set[str] = set()
        self._heard: list[Heard[T]] = []

    def get(self, key: str) -> T | None:
        """A document as it is now."""
        found = self.document(key)
        return None if found is None else found.value

    def document(self, key: str) -> Document[T] | None:
        """A document with its version, to change it by."""
        if self.problem is not None:
            raise self.problem
        known = self._known.get(key)
        return None if known is None else known.document

    def values(self) -> Iterator[T]:
        """Every document."""
        if self.problem is not None:
            raise self.problem
        return (known.document.value for known in self._known.values() if known.document is not None)

    def __len__(self) -> int:
        return len(self._known) - len(self._deleted)

    def on_change(self, heard: Heard[T]) -> Callable[[], None]:
        """Be told of every change, as key and new value or None. Gives the way to stop."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    def apply(self, change: Change) -> None:
        """Take over a change, unless it or a later one of the same document is known."""
        known = self._known.get(change.key)
        if known is not None and known.version >= change.version:
            return
        document: Document[T] | None = None
        if change.body is not None:
            try:
                document = Document(change.key, change.version, self.collection.decode(change.key, change.body))
            except StoreDamaged as problem:
                self.problem = problem
        self._set(change.key, _Known(change.version, change.revision, document))

    def take(self, changes: Sequence[Change], revision: int) -> None:
        """Take over the whole collection as it was at a revision."""
        for change in changes:
            self.apply(change)
        listed = {change.key for change in changes}
        for key, known in list(self._known.items()):
            if known.document is not None and known.revision <= revision and key not in listed:
                self._set(key, _Known(known.version, revision, None))

    def settle(self, revision: int) -> None:
        """Nothing older than this can arrive any more, unless the whole collection is being looked at."""
        if self.loading:
            return
        for key in [key for key in self._deleted if self._known[key].revision <= revision]:
            del self._known[key]
            self._deleted.remove(key)

    def _set(self, key: str, known: _Known[T]) -> None:
        before = self._known.get(key)
        self._known[key] = known
        if known.document is None:
            self._deleted.add(key)
            if before is None or before.document is None:
                # Heard of by the other way too, after it was forgotten here: there is nothing left to delete.
                return
        else:
            self._deleted.discard(key)
        self.generation += 1
        for heard in tuple(self._heard):
            heard(key, None if known.document is None else known.document.value)
