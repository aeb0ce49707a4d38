"""Whether the hub takes calls now, and why not."""

from __future__ import annotations

import time

from interlock.hub.auth.access import Access
from interlock.hub.foundation import Foundation
from interlock.wire.errors import Fault


class Readiness:
    """The hub takes no call before its start, while its store is behind, and while its audit log cannot be written."""

    def __init__(self, foundation: Foundation, access: Access) -> None:
        self._foundation = foundation
        self._access = access
        self.since = time.monotonic()
        """When this hub was made."""
        self.is_started = False
        """Whether the store is open and the servers are starting."""

    def begin(self) -> None:
        """The hub has started."""
        self.is_started = True

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self.since

    @property
    def refusal(self) -> tuple[str, Fault] | None:
        """Why the hub would refuse every call now: one word for it, and the fault that callers get."""
        if not self.is_started:
            return "starting", Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)
        if (stale := self._access.freshness.refusal()) is not None:
            return "keys", stale
        if (unwritable := self._foundation.recorder.stopped) is not None:
            return "audit", unwritable
        return None
