"""All entries on feature sets, following the store.

Rule: an entry that cannot be read may disable any set of its server, so with one all sets of the server are off.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from interlock.hub.live.feature_entry import FEATURES, AgentEntries, FeatureEntry, entry_parts
from interlock.hub.store_faults import starting
from interlock.protocols.mcpl.wake import SEPARATOR
from interlock.store import Mirror, Store, WrongChecksum
from interlock.wire.errors import Fault

MAX_ENTRIES: Final = 10_000
MAX_WARNINGS: Final = 10
MAX_SHOWN: Final = 200
"""Characters of an unreadable entry's id that a message shows."""


class FeatureEntries:
    """The entries on the feature sets of all servers."""

    def __init__(self) -> None:
        self._store: Store
        self._mirror: Mirror[FeatureEntry] | None = None
        self._of: dict[str, dict[str, AgentEntries]] = {}
        """By server and agent, worked out once for each change."""

    async def start(self, store: Store, on_change: Callable[[str], None]) -> None:
        """Load the entries. `on_change` gets every server with entries, and the server of every further change."""
        mirror = await store.mirror(FEATURES)

        def changed(key: str, entry: FeatureEntry | None) -> None:
            server = key.split(SEPARATOR)[0]
            self._of.pop(server, None)
            on_change(server)

        mirror.on_change(changed)
        self._store, self._mirror = store, mirror
        unreadable = {server for key in mirror.problems if (server := _server_of(mirror, key)) is not None}
        for server in unreadable.union(entry.server for entry in mirror.readable()):
            on_change(server)

    def all(self) -> Iterator[FeatureEntry]:
        """Every entry that can be read. Raises SERVER_NOT_READY before the store is open."""
        return self._ready().readable()

    def servers_of(self, agent: str) -> set[str]:
        """The servers with entries for an agent; none before the store is open."""
        return (
            set() if self._mirror is None else {each.server for each in self._mirror.readable() if each.agent == agent}
        )

    def by_agent(self, server: str) -> Mapping[str, AgentEntries]:
        """The entries on a server's feature sets. Raises SERVER_NOT_READY if one of them cannot be read."""
        self.check(server)  # An unreadable entry may disable a set that the cached value enables.
        known = self._of.get(server)
        if known is None:
            known = {}
            for entry in self.all():
                if entry.server == server:
                    mine = known.setdefault(entry.agent, AgentEntries())
                    (mine.enabling if entry.enabled else mine.disabling).append(entry)
            self._of[server] = known
        return known

    def unreadable(self, server: str) -> list[str]:
        """The ids of unreadable entries that may disable feature sets of a server."""
        if self._mirror is None:
            return []
        return sorted(key for key in self._mirror.problems if _server_of(self._mirror, key) in (server, None))

    def check(self, server: str) -> None:
        """Raise SERVER_NOT_READY if an entry on the feature sets of a server is unreadable."""
        if (mirror := self._ready()).problems and (found := self.unreadable(server)):
            message = f"the feature sets of {server} are off: an entry on them cannot be read"
            hint = "`interlock status` names the entry, and how to delete it"
            raise Fault("SERVER_NOT_READY", message, hint=hint, operator_text=mirror.problems[found[0]].for_operators)

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """A warning for each unreadable entry, with the command that deletes it."""
        found = []
        if (mirror := self._mirror) is None:
            return []
        for id_ in sorted(mirror.problems):
            parts = entry_parts(id_)
            if parts is None or _server_of(mirror, id_) is None:
                off, hint = "all feature sets", "restore the last backup with `interlock restore`"
            else:
                server, agent, feature = parts
                off = f"all feature sets of {server}"
                hint = f"`interlock features forget {server} {shlex.quote(feature)} --agent {agent}` deletes it"
            shown = id_.replace(SEPARATOR, " ")[:MAX_SHOWN]
            found.append((f"an entry on feature sets cannot be read ({shown}), so {off} are off", hint))
        return found[:MAX_WARNINGS]

    async def put(self, entries: Iterable[FeatureEntry], records: Iterable[object]) -> None:
        """Store entries together with their audit records. They are in force when this returns."""
        if len(self._ready()) >= MAX_ENTRIES:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_ENTRIES} entries of feature sets exist")
        async with self._store.transaction() as transaction:
            for entry in entries:
                transaction.put(FEATURES, entry)
            transaction.record(*records)

    async def forget(self, ids: Iterable[str], records: Iterable[object]) -> None:
        """Delete entries, together with their audit records."""
        async with self._store.transaction() as transaction:
            for id_ in ids:
                transaction.delete(FEATURES, id_)
            transaction.record(*records)

    def _ready(self) -> Mirror[FeatureEntry]:
        if self._mirror is None:
            raise starting()
        return self._mirror


def _server_of(mirror: Mirror[FeatureEntry], id_: str) -> str | None:
    """The server of an unreadable entry; None for an id that names none or may be wrong: it may concern any server."""
    parts = entry_parts(id_)
    return None if parts is None or isinstance(mirror.problems[id_], WrongChecksum) else parts[0]
