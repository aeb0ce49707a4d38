"""The fingerprints of a server's pins, as the store has them when the server is listed.

Rule: those of a server with many tools are kept, and used again while no pin has changed since they were read. A short
query says so, in the store's own order of changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from interlock.store import Collection, Store, documents
from interlock.store.database import Database

MIN_KEPT: Final = 500
"""Pins of a server from which on they are kept: fewer are read in no time."""
MAX_KEPT: Final = 50_000
"""Pins that are kept of all servers, about 9 MB."""


class PinnedFingerprint(msgspec.Struct, frozen=True):
    """A pin without its definition, which may be long."""

    id: str
    server: str
    name: str
    fingerprint: str


class _Kept(NamedTuple):
    fingerprints: Mapping[str, str]
    """By the name of the tool."""
    revision: int
    """The store's revision when they were read or found to be current."""


class PinnedFingerprints:
    """Reads the fingerprints of pins. Used on the loop's thread."""

    def __init__(self, collection: Collection[PinnedFingerprint]) -> None:
        self._collection = collection
        self._kept: dict[str, _Kept] = {}
        """By server, the newest last."""

    async def of(self, store: Store, server: str) -> Mapping[str, str]:
        """The fingerprints of all pins of a server by name."""
        kept = self._kept.pop(server, None)
        found = await store.read(lambda database: self._read(database, server, kept))
        if MIN_KEPT <= len(found.fingerprints) <= MAX_KEPT:
            self._kept[server] = found
            while sum(len(each.fingerprints) for each in self._kept.values()) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        return found.fingerprints

    def _read(self, database: Database, server: str, kept: _Kept | None) -> _Kept:
        revision = documents.counter(database, "revision")
        if kept is not None and not documents.changed_since(database, self._collection.name, kept.revision):
            return kept._replace(revision=revision)
        found = documents.find(database, self._collection, {"server": server})
        return _Kept({each.value.name: each.value.fingerprint for each in found}, revision)
