"""Tells servers the status of their permissions: before the first request, and after each change.

The hub decides; it ignores what a server answers (MGP, Permission Request Flow).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from interlock.client.connection import Connection
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import PermissionStatus
from interlock.hub.approvals.permissions import Permissions
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.permissions import (
    REQUEST,
    RESPONSE,
    PermissionOutcome,
    PermissionRequestParams,
    request_id_of,
)
from interlock.wire.errors import Fault

ANSWER_TIMEOUT_S: Final = 5.0
"""How long a person may take before a permission counts as deferred, and a server to answer."""
WAIT_NOTICE_TIMEOUT_S: Final = 1.0
"""How long a server may take to answer that it waits."""
_NO_SUCH_METHOD: Final = -32601

Log = Callable[[str, str], None]


class PermissionExchange:
    """Asks servers to wait, and sends them the decisions."""

    def __init__(self, permissions: Permissions, inbox: Inbox, hold_s: Callable[[], float], log: Log) -> None:
        self._permissions = permissions
        self._inbox = inbox
        self._hold_s = hold_s
        self._log = log
        self._waited: set[str] = set()
        """Open requests that a connection has already waited for."""
        self._sent: WeakKeyDictionary[Connection, list[PermissionStatus]] = WeakKeyDictionary()

    async def prepare(
        self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool = True
    ) -> None:
        """Decide a server's permissions before its first request. Raises PERMISSION_DENIED if it must not be used.

        On the shared connection a server declares its permissions; on a private one it can only add to them.
        """
        declared = () if agreement is None else agreement.offer.permissions_required
        statuses = await self._permissions.declare(server, declared, add=not shared)
        if statuses and agreement is not None and agreement.speaks("security"):
            await self._exchange(server, connection, statuses)
        refusal = self._permissions.refusal(server)
        if refusal is not None:
            raise refusal

    async def tell(self, server: str, connection: Connection) -> None:
        """Send a server the current statuses if they differ from the last ones sent."""
        statuses = self._permissions.statuses(server)
        if self._sent.get(connection) != statuses:
            self._sent[connection] = statuses
            await self._send(server, connection, RESPONSE, outcome(request_id_of(server), statuses), early=False)

    async def _exchange(self, server: str, connection: Connection, statuses: Sequence[PermissionStatus]) -> None:
        request_id = request_id_of(server)
        waiting = [each for each in statuses if each.grant == "deferred"]
        notices = TaskSet()
        try:
            if waiting:
                names = tuple(each.permission for each in waiting)
                notice = PermissionRequestParams(request_id, names, self._permissions.policy(server))
                sent = notices.begin(self._send(server, connection, REQUEST, notice, early=True))
                # The server may answer at once, after the decision, or never.
                await asyncio.wait([sent], timeout=WAIT_NOTICE_TIMEOUT_S)
            await self._settled({each.decision for each in waiting if each.decision})
            now = [self._permissions.status(server, each.permission) for each in statuses]
            self._sent[connection] = now
            await self._send(server, connection, RESPONSE, outcome(request_id, now), early=True)
        finally:
            await notices.close()

    async def _settled(self, decisions: set[str]) -> None:
        """Give people a few seconds to decide, once: later connections to the same server do not wait again."""
        timeout = min(ANSWER_TIMEOUT_S, self._hold_s())
        new, self._waited = decisions - self._waited, self._waited | decisions
        await asyncio.gather(*(self._inbox.settled(decision, timeout) for decision in new))
        self._waited &= {decision.id for decision in self._inbox.all(only_open=True)}
        # The entry of an answer is stored a moment after the answer.
        await self._permissions.caught_up()

    async def _send(
        self,
        server: str,
        connection: Connection,
        names: Sequence[str],
        params: PermissionRequestParams | PermissionOutcome,
        *,
        early: bool,
    ) -> None:
        """Send a request under the first method name that the server knows."""
        encoded = msgspec.json.encode(params)
        for method in names:
            try:
                await connection.request(method, encoded, timeout=ANSWER_TIMEOUT_S, early=early)
                return
            except Fault as fault:
                if fault.foreign_code != _NO_SUCH_METHOD:
                    self._log(server, f"refused {method}: {fault.message[:200]}")
                    return
        self._log(server, f"declares permissions, but does not support {names[0]}")


def outcome(request_id: str, statuses: Sequence[PermissionStatus]) -> PermissionOutcome:
    """The statuses in the form of the protocol: one approver and one expiry for all."""
    approved = [each for each in statuses if each.grant == "approved"]
    by = ", ".join(dict.fromkeys(each.by for each in approved if each.by))
    ends = min((each.expires_at for each in approved if each.expires_at is not None), default=None)
    return PermissionOutcome(request_id, {each.permission: each.grant for each in statuses}, by or None, ends)
