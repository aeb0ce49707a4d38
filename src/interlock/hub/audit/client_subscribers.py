"""Clients that get audit records as they are written: those that negotiated MGP's audit extension and have the right.

The hub stores nothing for them: a client that was away searches the audit log for the records it missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from interlock.hub.audit.mgp_format import METHOD, notification
from interlock.hub.audit.record import Record
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.protocols.mcp.dialect import Dialect

MAX_SUBSCRIBERS: Final = 256

Notify = Callable[[str, bytes], None]


class AuditSubscribers:
    """The subscribed clients. `on_records` costs nothing while there are none."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._subscribers: dict[Hashable, tuple[Principal, Notify]] = {}

    def join(self, client: Hashable, principal: Principal, dialect: Dialect, notify: Notify) -> bool:
        """Subscribe a client that negotiated the extension and has the right. Returns whether it is subscribed."""
        agreed = dialect.mgp is not None and "audit" in dialect.mgp.extensions
        if not agreed or not self._may(principal) or len(self._subscribers) >= MAX_SUBSCRIBERS:
            return False
        self._subscribers[client] = (principal, notify)
        return True

    def leave(self, client: Hashable) -> None:
        self._subscribers.pop(client, None)

    def on_records(self, chain: str, records: Iterable[Record]) -> None:
        """Send committed records. A client that has lost the right since gets none of them."""
        if not self._subscribers:
            return
        for client, (principal, _) in list(self._subscribers.items()):
            if not self._may(principal):
                self.leave(client)
        for record in records if self._subscribers else ():
            params = notification(chain, record.seq, record)
            for client, (_, notify) in list(self._subscribers.items()):
                try:
                    notify(METHOD, params)
                except Exception as cause:
                    # A broken subscriber must not keep records from being written.
                    self.leave(client)
                    context = {"message": "a subscriber to the audit log failed", "exception": cause}
                    asyncio.get_running_loop().call_exception_handler(context)

    def _may(self, principal: Principal) -> bool:
        rights = self._access.rights(principal)
        return principal != LOCAL_AGENT and rights is not None and rights.admin_read
