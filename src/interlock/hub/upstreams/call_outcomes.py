"""How the last calls to one server ended: for its health, and for how long draining it will take."""

from __future__ import annotations

from collections import deque
from typing import Final

from interlock.hub.audit.record import Outcome
from interlock.protocols.mgp.health import Health

KEPT: Final = 20
"""How many calls are looked back on."""
ENOUGH: Final = 5
"""From this many calls on, a server whose every call failed is unhealthy; before, degraded."""
_NOT_ITS_FAULT: Final = frozenset({"cancelled", "not_sent"})


class CallOutcomes:
    """The last calls to one server."""

    def __init__(self) -> None:
        self._last: deque[bool] = deque(maxlen=KEPT)
        self.usual_ms = 0.0
        """How long calls took lately, on average; 0 before the first."""

    def add(self, outcome: Outcome | None, took_us: int) -> None:
        """A call ended. Those that never reached the server, or that their caller cancelled, say nothing of it."""
        if outcome is None or outcome.transport in _NOT_ITS_FAULT:
            return
        self._last.append(outcome.result == "SUCCESS")
        took_ms = took_us / 1000
        self.usual_ms = took_ms if not self.usual_ms else 0.8 * self.usual_ms + 0.2 * took_ms

    @property
    def failed(self) -> int:
        """How many of the last calls failed."""
        return len(self._last) - sum(self._last)

    @property
    def counted(self) -> int:
        """How many calls are looked back on now."""
        return len(self._last)

    @property
    def health(self) -> Health:
        """A server whose every call fails is never healthy. One of whose calls most fail is degraded."""
        failed, counted = self.failed, self.counted
        if failed and failed == counted:
            return Health.UNHEALTHY if counted >= ENOUGH else Health.DEGRADED
        return Health.DEGRADED if failed * 2 > counted else Health.HEALTHY
