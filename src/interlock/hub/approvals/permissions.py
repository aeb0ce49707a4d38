"""The permissions of all servers, as they change: declarations of servers, new configurations, decisions of people.

A change is recorded once, and its server is reported as changed. `permission_statuses.py` has the status of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from interlock.config.settings import Config
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import ENTRIES, PermissionEntry, PermissionStatus, entry_id
from interlock.hub.approvals.permission_expiry import ExpiryWatch
from interlock.hub.approvals.permission_policy import status_of
from interlock.hub.approvals.permission_statuses import PermissionStatuses
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.access import utc_now
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.offer import Offer
from interlock.hub.repeated_commits import commit
from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.permissions import MAX_NAME_CHARS, Grant, expand_all
from interlock.protocols.mgp.security import Trust
from interlock.store import Store, Transaction
from interlock.wire.errors import Fault

MAX_PER_SERVER: Final = 64
"""Permissions of one server. A server that declares more is refused, a tool that names more is withheld."""
BATCH: Final = 20
"""Servers to which a new configuration is applied in one turn of the loop."""

PermissionEvent: TypeAlias = Literal["PERMISSION_GRANTED", "PERMISSION_DENIED", "PERMISSION_REVOKED"]
Log = Callable[[str, str], None]
Record = Callable[[PermissionEvent, str, PermissionStatus], None]
"""Writes an event type, a server and a status to the audit log."""
RecordEntry = Callable[[PermissionEntry, Principal, str], object]
"""Makes the audit record of a person's decision, with a trace id."""


class Permissions(PermissionStatuses):
    """Takes declarations and decisions. Used on the loop's thread, after `start`."""

    def __init__(
        self,
        inbox: Inbox,
        config: Callable[[], Config],
        trust_of: Callable[[str], Trust],
        *,
        changed: Callable[[str], None],
        log: Log,
        record: Record,
        record_entry: RecordEntry,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(inbox, config, trust_of, now)
        self._changed = changed
        self._log = log
        self._record = record
        self._record_entry = record_entry
        self._store: Store
        self._offers: dict[str, Offer] = {}
        """The offers before tools were withheld."""
        self._recorded: dict[tuple[str, str], tuple[Grant, str]] = {}
        """By server and permission, the grant and the rule that were recorded last."""
        self._tasks = TaskSet()
        self._expiry: ExpiryWatch | None = None
        self._unfollow: Callable[[], None] | None = None
        """Ends the calls of `_on_decision`."""

    async def start(self, store: Store) -> None:
        """Load the stored decisions, and process answers given while the hub was down."""
        self._store = store
        self._entries = await store.mirror(ENTRIES)
        self._entries.on_change(self._entry_changed)
        self._unfollow = self._inbox.on_change(self._on_decision)
        for decision in self._inbox.all(only_open=False):
            self._on_decision(decision)
        self._expiry = ExpiryWatch(self._entries, self.now, self._note_expired)

    async def close(self) -> None:
        """Stop processing answers. The next start processes later ones."""
        unfollow, self._unfollow = self._unfollow, None
        if unfollow is not None:
            unfollow()
        if self._expiry is not None:
            self._expiry.close()
        await self._tasks.settled()

    # Declarations of servers

    async def declare(self, server: str, names: Collection[str], *, add: bool = False) -> list[PermissionStatus]:
        """Take a server's declaration, or an addition to it, and open the approval requests it needs."""
        declared = expand_all(name[:MAX_NAME_CHARS] for name in names)
        before = self._declared.get(server, ()) if add else ()
        both = tuple(dict.fromkeys((*before, *declared)))
        if len(both) > MAX_PER_SERVER:
            raise Fault("RESOURCE_EXHAUSTED", f"{server} declares more than {MAX_PER_SERVER} permissions")
        self._declared[server] = both
        if not add:
            # Withdraw requests for names that it no longer declares, so that a server cannot fill the inbox.
            await self._withdraw(server, keep=self._wanted(server))
        return await self._settle(server, self.declared(server))

    async def take(self, offer: Offer) -> None:
        """Take the declarations of a server's tools."""
        named: dict[str, list[str]] = {}
        for tool in offer.tools.values():
            for name in tool.permissions or ():
                if name in named or len(named) < MAX_PER_SERVER:
                    named.setdefault(name, []).append(tool.name)
        self._named[offer.server] = named
        await self._withdraw(offer.server, keep=self._wanted(offer.server))
        await self._settle(offer.server, named)

    def filtered(self, offer: Offer) -> Offer:
        """An offer without the tools that miss a permission."""
        self._offers[offer.server] = offer
        if not self.declared(offer.server) and not self._named.get(offer.server):
            return offer
        # Many tools name the same permissions, so their missing permissions are computed once.
        misses: dict[tuple[str, ...] | None, bool] = {}
        for tool in offer.tools.values():
            if tool.permissions not in misses:
                misses[tool.permissions] = bool(self.missing(tool)[0])
        return offer.unpermitted(tool for tool in offer.tools.values() if misses[tool.permissions])

    def filtered_again(self, server: str) -> Offer | None:
        """The last offer of a server, filtered by the current statuses."""
        offer = self._offers.get(server)
        return None if offer is None else self.filtered(offer)

    async def apply(self) -> None:
        """Apply a new configuration to known servers and open requests."""
        servers = self._config().servers
        decided = {server for server, _ in self._recorded}
        for count, server in enumerate({*self._declared, *self._named}, 1):
            if not count % BATCH:
                await asyncio.sleep(0)
            if server not in servers:
                for known in (self._declared, self._named, self._offers):
                    known.pop(server, None)
                await self._withdraw(server, keep=())
                continue
            if server not in decided and not self._wanted(server):
                continue  # The server never needed a permission.
            statuses = await self._settle(server, self._wanted(server))
            await self._withdraw(server, keep={each.permission for each in statuses if each.grant == "deferred"})
            self._changed(server)

    async def _withdraw(self, server: str, keep: Collection[str]) -> None:
        """Withdraw open requests about a server, except for these permissions."""
        requests = [old for old in self._inbox.about("permission", server) if old.state is DecisionState.OPEN]
        await self._inbox.void(old for old in requests if old.request.name not in keep)

    async def _settle(self, server: str, names: Iterable[str]) -> list[PermissionStatus]:
        """The statuses of permissions, with a request opened for each that a person must decide."""
        found = [self.status(server, name) for name in names]
        waiting = [each.permission for each in found if each.grant == "deferred" and not each.decision]
        if waiting:
            await self._inbox.ask_all([self._request_about(server, name) for name in waiting])
            found = [self.status(server, each.permission) for each in found]
        for each in found:
            self._note(server, each)
        return found

    # Decisions of people

    async def put(
        self,
        server: str,
        permission: str,
        grant: Literal["approved", "denied"],
        by: Principal,
        *,
        expires_at: datetime | None = None,
        revoked: bool = False,
        reason: str = "",
        trace: str = "",
    ) -> None:
        """Store a decision. It holds from the next call on, and closes the open request."""
        if grant == "approved" and by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can grant a permission, and {by.id} is a {by.kind}")
        id_, place = entry_id(server, permission), self._place(server)
        args = (expires_at, revoked, reason, by.kind)
        entry = PermissionEntry(id_, server, permission, grant, by.id, self.now(), place, *args)
        async with self._store.transaction() as change:
            change.put(ENTRIES, entry)
            change.record(self._record_entry(entry, by, trace))
        await self._withdraw_request(server, permission)

    async def _withdraw_request(self, server: str, permission: str) -> None:
        request = self._inbox.current(self._request_about(server, permission))
        if request is not None and request.state is DecisionState.OPEN:
            await self._inbox.void([request])

    def _on_decision(self, decision: Decision) -> None:
        """Process an answer from the inbox; a request that expired unanswered is opened again."""
        request = decision.request
        if request.kind != "permission" or self._entries is None:
            return
        if decision.state in (DecisionState.APPROVED, DecisionState.DENIED):
            self._tasks.begin(self._take_answer(decision))
        elif (
            decision.state is DecisionState.EXPIRED
            and not decision.answer
            and request.name in self._wanted(request.server)
        ):
            self._tasks.begin(self._settle(request.server, [request.name]))

    async def _take_answer(self, decision: Decision) -> None:
        """Store an answer, unless a person has decided later. Every hub of a store tries this; one of them succeeds."""
        request, by = decision.request, Principal(decision.answered_by, "person")
        server, name, known = request.server, request.name, self.entry(request.server, request.name)
        at = datetime.fromtimestamp((decision.answered_at or decision.created) / 1000, UTC)
        entry = PermissionEntry(
            entry_id(server, name),
            server,
            name,
            "approved" if decision.state is DecisionState.APPROVED else "denied",
            by.id,
            at,
            self._place(server),
            reason=f"decision {decision.id}",
        )

        async def write(change: Transaction) -> None:
            stored = await change.get(ENTRIES, entry.id)
            if stored is None or stored.value.at < at:
                change.put(ENTRIES, entry)
                change.record(self._record_entry(entry, by, ""))

        if decision.state is DecisionState.APPROVED:
            # An approval holds only for the server as it was requested, and before the deadline. If this hub has the
            # server with another configuration, another hub may still use the approval.
            current = self._inbox.current(self._request_about(server, name))
            if current is not None and current.id == decision.id:
                await self._inbox.use(decision.id, write)
        elif known is None or known.at < at:
            await commit(self._store, write)
            await self._withdraw_request(server, name)

    async def caught_up(self) -> None:
        """Wait until all answers given so far are processed."""
        await self._tasks.settled()

    # Consequences

    def _entry_changed(self, _: str, entry: PermissionEntry | None) -> None:
        if entry is None:
            if self._entries is not None and self._entries.problem is not None:
                for server in [*self._offers]:
                    self._changed(server)  # It may be a denial of any server.
            return
        self._note(entry.server, self.status(entry.server, entry.permission), decision=entry)
        self._changed(entry.server)
        if self._expiry is not None:
            self._expiry.restart()

    def _note_expired(self, entry: PermissionEntry) -> None:
        status = self.status(entry.server, entry.permission)
        if self._note(entry.server, status):
            self._changed(entry.server)
            if status.grant == "deferred" and entry.permission in self._wanted(entry.server):
                self._tasks.begin(self._settle(entry.server, [entry.permission]))

    def _note(self, server: str, status: PermissionStatus, *, decision: PermissionEntry | None = None) -> bool:
        """Log a status that differs from the last one. Returns whether it differs.

        The audit log gets the status too, unless `decision` caused it: the commit of the decision has recorded it.
        """
        key, current = (server, status.permission), (status.grant, status.rule)
        if self._recorded.get(key) == current:
            return False
        self._recorded[key] = current
        recorded = decision is not None and status_of(decision) == status
        if status.grant != "deferred" and not recorded:
            self._record("PERMISSION_GRANTED" if status.grant == "approved" else "PERMISSION_DENIED", server, status)
        self._log(server, f"permission {status.permission!r} is {status.grant}: {status.rule}")
        return True
