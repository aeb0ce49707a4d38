"""Grants and denials, kept in the store and found in memory by agent, server and tool in one step.

However many there are, a question looks at four of them at most: allow and deny for the tool, allow and deny for the
server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from interlock.protocols.mgp.access import Entry, EntryType, Permission
from interlock.store import Collection, Mirror, Store
from interlock.wire.errors import Fault

MOST: Final = 1_000_000

Place = tuple[str, str, str | None]
"""Agent, server, and tool or None for all of them."""


class Grant(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as it is stored. The same one, given again, takes the place of the old."""

    id: str

    @property
    def place(self) -> Place:
        """What it is about."""
        return self.agent_id, self.server_id, self.tool_name


GRANTS: Final = Collection("grants", Grant, key="id", columns=("agent_id", "server_id"))


def grant_id(agent: str, server: str, tool: str | None, permission: Permission) -> str:
    """The name of an entry: an allow and a deny for the same thing are two entries."""
    return hashlib.sha256(msgspec.json.encode([agent, server, tool, permission])).hexdigest()[:32]


class Grants:
    """All grants, following the store."""

    def __init__(self) -> None:
        self._store: Store
        self._mirror: Mirror[Grant] | None = None
        self._at: dict[Place, tuple[Grant, ...]] = {}
        self._agents: dict[str, dict[str, dict[str, Grant]]] = {}
        """By agent, server and id."""
        self._known: dict[str, Grant] = {}
        self._revisions: dict[str, int] = {}
        self._heard: Callable[[], None] = lambda: None

    async def begin(self, store: Store, heard: Callable[[], None]) -> None:
        """Take over what the store holds; `heard` is called after every further change."""
        self._store = store
        self.follow(await store.mirror(GRANTS), heard)

    def follow(self, mirror: Mirror[Grant], heard: Callable[[], None]) -> None:
        """Take over what is in memory, and whatever changes in it."""
        for grant in mirror.values():
            self._follow(grant.id, grant)
        mirror.on_change(self._follow)
        self._mirror, self._heard = mirror, heard

    def at(self, agent: str, server: str, tool: str | None) -> tuple[Grant, ...]:
        """The entries that bear on a tool of a server for an agent. With no tool, those on the server as a whole."""
        self._ready()
        whole = self._at.get((agent, server, None), ())
        return whole if tool is None else whole + self._at.get((agent, server, tool), ())

    def of_agent(self, agent: str) -> list[Grant]:
        """Every entry about an agent."""
        self._ready()
        return [grant for of_server in self._agents.get(agent, {}).values() for grant in of_server.values()]

    def of_server(self, agent: str, server: str) -> list[Grant]:
        """Every entry about an agent and a server or its tools."""
        self._ready()
        return list(self._agents.get(agent, {}).get(server, {}).values())

    def revision(self, agent: str) -> int:
        """0 for an agent that nothing was ever said about; grows with everything that is."""
        return self._revisions.get(agent, 0)

    def list(self) -> list[Grant]:
        """Every entry."""
        return list(self._ready().values())

    async def put(self, grant: Grant, *records: object) -> None:
        """Store an entry, with the records of it. It holds for every call from now on."""
        if len(self._ready()) >= MOST:
            raise Fault("RESOURCE_EXHAUSTED", f"{MOST} grants exist", hint="revoke some first")
        async with self._store.transaction() as change:
            change.put(GRANTS, grant)
            change.record(*records)

    async def revoke(
        self,
        kind: EntryType,
        agent: str,
        server: str,
        tool: str | None,
        record: Callable[[Grant], object] | None = None,
    ) -> int:
        """Delete what was said at one level, allow and deny alike. Says how many entries that were."""
        if (kind == "tool_grant") != (tool is not None):
            raise Fault("INVALID_PARAMS", "a tool grant names its tool, a server grant names none")
        self._ready()
        gone = self._at.get((agent, server, tool), ())
        async with self._store.transaction() as change:
            for grant in gone:
                change.delete(GRANTS, grant.id)
                if record is not None:
                    change.record(record(grant))
        return len(gone)

    def next_end(self, agent: str, now: datetime) -> datetime | None:
        """When the first of an agent's entries expires that has not yet."""
        ends = (grant.expires_at for grant in self.of_agent(agent) if grant.expires_at is not None)
        return min((end for end in ends if end > now), default=None)

    def _ready(self) -> Mirror[Grant]:
        if self._mirror is None:
            raise Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)
        if self._mirror.problem is not None:
            # What cannot be read may have been a denial.
            problem = self._mirror.problem
            raise Fault("SERVER_NOT_READY", f"the grants cannot be read: {problem}", hint=problem.hint)
        return self._mirror

    def _follow(self, id: str, grant: Grant | None) -> None:
        old = self._known.pop(id, None)
        if old is not None:
            rest = tuple(other for other in self._at[old.place] if other.id != id)
            if rest:
                self._at[old.place] = rest
            else:
                del self._at[old.place]
            del self._agents[old.agent_id][old.server_id][id]
            self._revisions[old.agent_id] += 1
        if grant is not None:
            self._known[id] = grant
            self._at[grant.place] = (*self._at.get(grant.place, ()), grant)
            self._agents.setdefault(grant.agent_id, {}).setdefault(grant.server_id, {})[id] = grant
            self._revisions[grant.agent_id] = self._revisions.get(grant.agent_id, 0) + 1
        self._heard()
