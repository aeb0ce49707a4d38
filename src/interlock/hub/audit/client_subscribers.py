"""Clients that hear of the record as it is written: those that negotiated MGP's audit extension and have the right.

Nothing is kept for them: one that is slow or gone misses what it misses, and can search for it.
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

MOST: Final = 256

Tell = Callable[[str, bytes], None]


class AuditSubscribers:
    """Whoever listens. `told` costs nothing while nobody does."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._listeners: dict[Hashable, tuple[Principal, Tell]] = {}

    def join(self, who: Hashable, principal: Principal, dialect: Dialect, tell: Tell) -> bool:
        """Tell this one from now on, if it agreed to and may. Says whether it will be."""
        agreed = dialect.mgp is not None and "audit" in dialect.mgp.extensions
        if not agreed or not self._may(principal) or len(self._listeners) >= MOST:
            return False
        self._listeners[who] = (principal, tell)
        return True

    def leave(self, who: Hashable) -> None:
        """Tell it no more."""
        self._listeners.pop(who, None)

    def on_records(self, chain: str, records: Iterable[Record]) -> None:
        """Records were committed. Whoever lost the right since hears of none of them."""
        if not self._listeners:
            return
        for who, (principal, _) in list(self._listeners.items()):
            if not self._may(principal):
                self.leave(who)
        for record in records if self._listeners else ():
            params = notification(chain, record.seq, record)
            for who, (_, tell) in list(self._listeners.items()):
                try:
                    tell(METHOD, params)
                except Exception as cause:
                    # Whatever is wrong with one listener must not keep records from being written.
                    self.leave(who)
                    told = {"message": "a listener to the record failed", "exception": cause}
                    asyncio.get_running_loop().call_exception_handler(told)

    def _may(self, principal: Principal) -> bool:
        rights = self._access.rights(principal)
        return principal != LOCAL_AGENT and rights is not None and rights.admin_read
