"""Records audit events that servers send, as claims, separate from the hub's own records.

Size and rate are limited: a server cannot fill the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.config.settings import Rate
from interlock.hub.audit.entries import NOBODY, event_record
from interlock.hub.audit.record import CLAIMED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.catalog.target import Target
from interlock.hub.rate_meter import Meter
from interlock.protocols.traces import trace_id_from
from interlock.wire.json_values import JSON_ERRORS

MAX_BYTES: Final = 16 * 1024
RATE: Final = Rate(per_minute=600, per_hour=6000)
"""The rate of recorded claims of one server."""


class ServerClaims:
    """Records the claims of all servers."""

    def __init__(
        self, recorder: Callable[[], Recorder], clock: Callable[[], float], log: Callable[[str, str], None]
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._log = log
        self._meters: dict[str, Meter] = {}
        self._dropped: dict[str, int] = {}

    def take(self, server: str, method: str, params: bytes) -> None:
        """Record a claim, or drop one that is too large, too frequent or unreadable."""
        now = self._clock()
        meter = self._meters.get(server)
        if meter is None:
            meter = self._meters[server] = Meter("server", RATE)
        if len(params) > MAX_BYTES or meter.wait_s(now) > 0:
            self._drop(server)
            return
        try:
            claim = msgspec.json.decode(params, type=dict[str, object])
        except JSON_ERRORS:
            self._drop(server)
            return
        meter.take(now)
        trace = claim.get("trace_id")
        details: dict[str, object] = {"method": method, "claim": claim}
        if dropped := self._dropped.pop(server, 0):
            details["dropped_before"] = dropped
        self._recorder().add(
            event_record(
                CLAIMED,
                NOBODY,
                Target("server", server, ""),
                trace_id_from(trace) if isinstance(trace, str) else "",
                claimed_by=server,
                details=details,
            )
        )

    def _drop(self, server: str) -> None:
        count = self._dropped[server] = self._dropped.get(server, 0) + 1
        if count == 1:
            self._log(server, "sends too many audit claims, or unreadable ones; some are not recorded")
