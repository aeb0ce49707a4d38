"""What servers say happened: kept in the record as their claim, marked so, and never as the hub's own knowledge.

A server can claim what it likes, and only so much of it: it must not be able to fill the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.config.settings import Rate
from interlock.hub.audit.entries import NOBODY
from interlock.hub.audit.record import CLAIMED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.catalog.target import Target
from interlock.hub.rate_meter import Meter
from interlock.protocols.traces import trace_id_from

MOST_BYTES: Final = 16 * 1024
RATE: Final = Rate(per_minute=600, per_hour=6000)
"""Of one server."""


class ServerClaims:
    """Takes in what servers claim."""

    def __init__(
        self, recorder: Callable[[], Recorder], clock: Callable[[], float], log: Callable[[str, str], None]
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._log = log
        self._meters: dict[str, Meter] = {}
        self._dropped: dict[str, int] = {}

    def take(self, server: str, method: str, params: bytes) -> None:
        """Keep a claim, or drop it where it is too large, too many, or says nothing."""
        now = self._clock()
        meter = self._meters.get(server)
        if meter is None:
            meter = self._meters[server] = Meter("server", RATE)
        if len(params) > MOST_BYTES or meter.wait_s(now) > 0:
            self._drop(server)
            return
        try:
            said = msgspec.json.decode(params, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._drop(server)
            return
        meter.take(now)
        trace = said.get("trace_id")
        details: dict[str, object] = {"method": method, "claim": said}
        if dropped := self._dropped.pop(server, 0):
            details["dropped_before"] = dropped
        self._recorder().event(
            CLAIMED,
            NOBODY,
            Target("server", server, ""),
            trace_id_from(trace) if isinstance(trace, str) else "",
            claimed_by=server,
            details=details,
        )

    def _drop(self, server: str) -> None:
        count = self._dropped[server] = self._dropped.get(server, 0) + 1
        if count == 1:
            self._log(server, "claims too much, or what cannot be read; some of it is not recorded")
