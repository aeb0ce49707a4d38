"""Clients that get audit records as they are written: those that negotiated MGP's audit extension and have the right.

The hub stores nothing for them: a client that was away searches the audit log for the records it missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from interlock.events import Bus, EventFilter, OnDemandSubscriber
from interlock.events.types import AuditAppended, Delivery
from interlock.hub.audit.mgp_format import METHOD, notification
from interlock.hub.audit.record import Record
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.methods import agreed_on

MAX_SUBSCRIBERS: Final = 256
LIMIT: Final = 8192
"""Unread records kept for these clients: two commits of the largest size."""
SENT_AT_ONCE: Final = 256
"""Notifications in one turn of the loop."""

Notify = Callable[[str, bytes], None]


class AuditSubscribers:
    """The subscribed clients. They cost nothing while there are none."""

    def __init__(self, access: Access, bus: Bus) -> None:
        self._access = access
        self._subscribers: dict[Hashable, tuple[Principal, Notify]] = {}
        self._reader = OnDemandSubscriber(lambda: bus.subscribe(EventFilter.of(AuditAppended), LIMIT), self._send)

    def __len__(self) -> int:
        return len(self._subscribers)

    def join(self, client: Hashable, principal: Principal, dialect: Dialect, notify: Notify) -> bool:
        """Subscribe a client that negotiated the extension and has the right. Returns whether it is subscribed."""
        if not agreed_on(dialect, "audit") or not self._may(principal) or len(self._subscribers) >= MAX_SUBSCRIBERS:
            return False
        self._subscribers[client] = (principal, notify)
        self._reader.run(True)
        return True

    def leave(self, client: Hashable) -> None:
        self._subscribers.pop(client, None)
        self._reader.run(bool(self._subscribers))

    async def close(self) -> None:
        """Send nothing more."""
        self._subscribers.clear()
        await self._reader.close()

    async def _send(self, batch: Sequence[Delivery]) -> None:
        """Send committed records. A client that has lost the right since gets none of them.

        A gap is visible to clients: each record has its number in the chain.
        """
        sent = 0
        for event in batch:
            for client, (principal, _) in list(self._subscribers.items()):
                if not self._may(principal):
                    self.leave(client)
            if isinstance(event, AuditAppended):
                sent += self._send_one(event)
            if sent >= SENT_AT_ONCE:
                sent = 0
                await asyncio.sleep(0)

    def _send_one(self, event: AuditAppended) -> int:
        params = notification(event.source, event.sequence, msgspec.json.decode(event.entry, type=Record))
        for client, (_, notify) in list(self._subscribers.items()):
            try:
                notify(METHOD, params)
            except Exception as cause:
                # A broken subscriber must not keep records from the others.
                self.leave(client)
                context = {"message": "a subscriber to the audit log failed", "exception": cause}
                asyncio.get_running_loop().call_exception_handler(context)
        return len(self._subscribers)

    def _may(self, principal: Principal) -> bool:
        rights = self._access.rights(principal)
        return principal != LOCAL_AGENT and rights is not None and rights.admin_read
