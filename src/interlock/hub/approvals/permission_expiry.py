"""Notices when an approval with an end expires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from interlock.hub.approvals.permission_entries import PermissionEntry
from interlock.store import Mirror

MAX_EXPIRY_CHECK_S: Final = 60.0
"""The longest time between two checks for expired approvals, because the wall clock may be set."""


class ExpiryWatch:
    """A timer for the next entry that expires. `on_expired` gets expired entries at every check, old ones too."""

    def __init__(
        self,
        entries: Mirror[PermissionEntry],
        now: Callable[[], datetime],
        on_expired: Callable[[PermissionEntry], None],
    ) -> None:
        self._entries = entries
        self._now = now
        self._on_expired = on_expired
        self._timer: asyncio.TimerHandle | None = None
        self.restart()

    def restart(self) -> None:
        """Check again when the next entry expires."""
        self.close()
        now = self._now()
        ends = [
            (entry.expires_at - now).total_seconds()
            for entry in self._entries.readable()
            if entry.expires_at is not None and entry.expires_at > now
        ]
        if ends:
            self._timer = asyncio.get_running_loop().call_later(min(*ends, MAX_EXPIRY_CHECK_S), self._check)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self._now()
        for entry in list(self._entries.readable()):
            if entry.expires_at is not None and entry.expires_at <= now:
                self._on_expired(entry)
        self.restart()
