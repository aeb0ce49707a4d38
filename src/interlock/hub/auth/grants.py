"""Grants and denials, stored, and indexed in memory by agent, server and tool.

A decision reads at most four of them: allow and deny for the tool, allow and deny for the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from interlock.hub.repeated_commits import commit
from interlock.hub.store_faults import whole
from interlock.protocols.mgp.access import AccessEntry, EntryType, Permission
from interlock.store import Collection, Mirror, Store, Transaction
from interlock.wire.errors import Fault

MAX_GRANTS: Final = 1_000_000

Subject = tuple[str, str, str | None]
"""Agent, server, and a tool or None for all tools."""


class Grant(AccessEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A stored entry. A new one with the same id replaces it."""

    id: str

    @property
    def subject(self) -> Subject:
        return self.agent_id, self.server_id, self.tool_name


GRANTS: Final = Collection("grants", Grant, key="id", columns=("agent_id", "server_id"))


def grant_id(agent: str, server: str, tool: str | None, permission: Permission) -> str:
    """The id of an entry. An allow and a deny for the same subject are two entries."""
    return hashlib.sha256(msgspec.json.encode([agent, server, tool, permission])).hexdigest()[:32]


class Grants:
    """All grants, following the store."""

    def __init__(self) -> None:
        self._store: Store
        self._mirror: Mirror[Grant] | None = None
        self._at: dict[Subject, tuple[Grant, ...]] = {}
        self._agents: dict[str, dict[str, dict[str, Grant]]] = {}
        """By agent, server and id."""
        self._known: dict[str, Grant] = {}
        self._revisions: dict[str, int] = {}
        self._on_change: Callable[[], None] = lambda: None

    async def start(self, store: Store, on_change: Callable[[], None]) -> None:
        """Load the stored grants; `on_change` is called after every further change."""
        self._store = store
        self.follow(await store.mirror(GRANTS), on_change)

    def follow(self, mirror: Mirror[Grant], on_change: Callable[[], None]) -> None:
        """Index a mirror and follow its changes."""
        # An entry that cannot be read may be a denial of anybody: until it can be, every decision raises (`_ready`).
        mirror.replay_to(self._follow)
        self._mirror, self._on_change = mirror, on_change

    def at(self, agent: str, server: str, tool: str | None) -> tuple[Grant, ...]:
        """The entries for an agent and a tool of a server; without a tool, those for the server as a whole."""
        self._ready()
        whole = self._at.get((agent, server, None), ())
        return whole if tool is None else whole + self._at.get((agent, server, tool), ())

    def of_agent(self, agent: str) -> list[Grant]:
        """Every entry of an agent."""
        self._ready()
        return [grant for of_server in self._agents.get(agent, {}).values() for grant in of_server.values()]

    def of_server(self, agent: str, server: str) -> list[Grant]:
        """Every entry of an agent for a server or its tools."""
        self._ready()
        return list(self._agents.get(agent, {}).get(server, {}).values())

    def revision(self, agent: str) -> int:
        """0 for an agent that never had an entry; grows with each change."""
        return self._revisions.get(agent, 0)

    def list(self) -> list[Grant]:
        return list(self._ready().values())

    async def put(self, grant: Grant, *records: object) -> None:
        """Store an entry together with its audit records. It holds from the next call on."""
        if len(self._ready()) >= MAX_GRANTS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_GRANTS} grants exist", hint="revoke some first")
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
        """Delete the entries at one level, allow and deny alike. Returns how many there were.

        A grant that another hub has just made is deleted, too. A denial is not: nobody has checked who may end that.
        """
        if (kind == "tool_grant") != (tool is not None):
            raise Fault("INVALID_PARAMS", "a tool grant names its tool, a server grant names none")
        self._ready()
        known = [grant.id for grant in self._at.get((agent, server, tool), ())]
        ids = dict.fromkeys((*known, grant_id(agent, server, tool, "allow")))

        async def write(change: Transaction) -> int:
            stored = [await change.get(GRANTS, id_) for id_ in ids]
            revoked = [found.value for found in stored if found is not None]
            for grant in revoked:
                change.delete(GRANTS, grant.id)
                if record is not None:
                    change.record(record(grant))
            return len(revoked)

        return await commit(self._store, write)

    def next_end(self, agent: str, now: datetime) -> datetime | None:
        """When the next of an agent's entries expires."""
        ends = (grant.expires_at for grant in self.of_agent(agent) if grant.expires_at is not None)
        return min((end for end in ends if end > now), default=None)

    def _ready(self) -> Mirror[Grant]:
        return whole(self._mirror, "grants")

    def _follow(self, id: str, grant: Grant | None) -> None:
        old = self._known.pop(id, None)
        if old is not None:
            rest = tuple(other for other in self._at[old.subject] if other.id != id)
            if rest:
                self._at[old.subject] = rest
            else:
                del self._at[old.subject]
            del self._agents[old.agent_id][old.server_id][id]
            self._revisions[old.agent_id] += 1
        if grant is not None:
            self._known[id] = grant
            self._at[grant.subject] = (*self._at.get(grant.subject, ()), grant)
            self._agents.setdefault(grant.agent_id, {}).setdefault(grant.server_id, {})[id] = grant
            self._revisions[grant.agent_id] = self._revisions.get(grant.agent_id, 0) + 1
        self._on_change()
