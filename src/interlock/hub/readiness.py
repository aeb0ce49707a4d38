"""Whether the hub takes calls now, and why not."""

from __future__ import annotations

import asyncio
import time

from interlock.hub.auth.access import Access
from interlock.hub.foundation import Foundation
from interlock.hub.store_faults import starting
from interlock.hub.upstreams.commands import DRAIN_S
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
        self.stopping = asyncio.Event()
        """Set when the hub shall stop."""
        self.drain_s = DRAIN_S
        """How long open calls may take to finish when the hub stops."""

    def begin(self) -> None:
        """The hub has started."""
        self.is_started = True

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """Stop the hub: it takes no new work from now on."""
        if not self.stopping.is_set():
            self.drain_s = drain_s
            self.stopping.set()

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self.since

    @property
    def refusal(self) -> tuple[str, Fault] | None:
        """Why the hub would refuse every call now: one word for it, and the fault that callers get."""
        if self.stopping.is_set():
            retry_ms = int(self.drain_s * 1000)
            return "stopping", Fault("SERVER_DRAINING", "the hub is shutting down", retry_after_ms=max(2000, retry_ms))
        if not self.is_started:
            return "starting", starting()
        if (stale := self._access.freshness.refusal()) is not None:
            return "keys", stale
        if (unwritable := self._foundation.recorder.stopped) is not None:
            return "audit", unwritable
        return None
