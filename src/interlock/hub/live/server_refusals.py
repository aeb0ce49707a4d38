"""Records the messages of servers that the hub refused. A server cannot fill the audit log with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.config.settings import Rate
from interlock.hub.journal import Journal
from interlock.hub.rate_meter import Meters
from interlock.wire.errors import Fault

RATE: Final = Rate(per_minute=120, per_hour=2_000)
"""How many refusals of one server are recorded. Further ones are only counted."""


class RecordedRefusals:
    """Refused messages of all servers."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._meters = Meters("server")
        self._unrecorded: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        """By server, since the hub started."""

    def add(self, server: str, method: str, feature_set: str, event_id: str, fault: Fault) -> None:
        """Count a refused message, and record it within the rate."""
        self.counts[server] = self.counts.get(server, 0) + 1
        if self._meters.wait_s(server, RATE, self._clock()) > 0:
            self._unrecorded[server] = self._unrecorded.get(server, 0) + 1
            return
        self._journal.live_refused(
            server, method, feature_set, event_id, fault, unrecorded=self._unrecorded.pop(server, 0)
        )
