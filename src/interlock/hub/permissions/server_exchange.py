"""What passes between the hub and a server about its permissions, before the server may begin and whenever one changes.

The decision is made here and told: nothing that a server answers is believed (MGP, Permission Request Flow).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from interlock.client.connection import Connection
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.permissions.entries import PermissionStatus
from interlock.hub.permissions.permissions import Permissions
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.protocols.mgp.permissions import REQUEST, RESPONSE, Await, Outcome
from interlock.wire.errors import Fault

PATIENCE_S: Final = 5.0
"""How long a person may take before a decision counts as deferred, and a server to hear what was decided."""
HEARD_S: Final = 1.0
"""How long a server may take to hear that it is to wait."""
_NO_SUCH_METHOD: Final = -32601

Log = Callable[[str, str], None]


class PermissionExchange:
    """Asks servers to wait, and tells them what was decided."""

    def __init__(self, permissions: Permissions, inbox: Inbox, hold_s: Callable[[], float], log: Log) -> None:
        self._permissions = permissions
        self._inbox = inbox
        self._hold_s = hold_s
        self._log = log
        self._waited_for: set[str] = set()
        """Open questions that someone had their few seconds for."""
        self._told: WeakKeyDictionary[Connection, list[PermissionStatus]] = WeakKeyDictionary()

    async def prepare(
        self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool = True
    ) -> None:
        """Settle what a server needs before it may begin. Raises PERMISSION_DENIED where it must not.

        What it says on the connection that all share is what it needs; on a private one it can only add to that.
        """
        said = () if agreement is None else agreement.offer.permissions_required
        standings = await self._permissions.declare(server, said, add=not shared)
        if standings and agreement is not None and agreement.speaks("security"):
            await self._exchange(server, connection, standings)
        refusal = self._permissions.refusal(server)
        if refusal is not None:
            raise refusal

    async def tell(self, server: str, connection: Connection) -> None:
        """Tell a server that is in use how its permissions stand now, if that is news to it."""
        standings = self._permissions.of(server)
        if self._told.get(connection) != standings:
            self._told[connection] = standings
            await self._say(server, connection, RESPONSE, outcome(_new_id(), standings), early=False)

    async def _exchange(self, server: str, connection: Connection, standings: Sequence[PermissionStatus]) -> None:
        request_id = _new_id()
        waiting = [each for each in standings if each.grant == "deferred"]
        if waiting:
            names = tuple(each.permission for each in waiting)
            asked = Await(request_id, names, self._permissions.policy(server))
            told = asyncio.ensure_future(self._say(server, connection, REQUEST, asked, early=True))
        else:
            told = asyncio.ensure_future(asyncio.sleep(0))
        try:
            # The server may answer at once, when the decision is there, or never: nobody waits for it for long.
            await asyncio.wait([told], timeout=HEARD_S)
            await self._settled({each.decision for each in waiting if each.decision})
            now = [self._permissions.standing(server, each.permission) for each in standings]
            self._told[connection] = now
            await self._say(server, connection, RESPONSE, outcome(request_id, now), early=True)
        finally:
            told.cancel()
            await asyncio.gather(told, return_exceptions=True)

    async def _settled(self, decisions: set[str]) -> None:
        """Give whoever decides a few seconds, once: later connections to the same server do not wait for it again."""
        patience = min(PATIENCE_S, self._hold_s())
        new, self._waited_for = decisions - self._waited_for, self._waited_for | decisions
        await asyncio.gather(*(self._inbox.settled(decision, patience) for decision in new))
        self._waited_for &= {decision.id for decision in self._inbox.all(only_open=True)}
        # An answer is one thing, its entry another: it is there a moment later.
        await self._permissions.caught_up()

    async def _say(
        self, server: str, connection: Connection, names: Sequence[str], said: Await | Outcome, *, early: bool
    ) -> None:
        """Say it under the first name that the server knows."""
        params = msgspec.json.encode(said)
        for method in names:
            try:
                await connection.request(method, params, timeout=PATIENCE_S, early=early)
                return
            except Fault as fault:
                if fault.foreign_code != _NO_SUCH_METHOD:
                    self._log(server, f"did not take {method}: {fault.message[:200]}")
                    return
        self._log(server, f"declares permissions, and does not know {names[0]}")


def outcome(request_id: str, standings: Sequence[PermissionStatus]) -> Outcome:
    """How permissions stand, as the protocol says it: one approver and one expiry for all of them."""
    approved = [each for each in standings if each.grant == "approved"]
    by = ", ".join(dict.fromkeys(each.by for each in approved if each.by))
    ends = min((each.expires_at for each in approved if each.expires_at is not None), default=None)
    return Outcome(request_id, {each.permission: each.grant for each in standings}, by or None, ends)


def _new_id() -> str:
    return f"perm-{secrets.token_hex(6)}"
