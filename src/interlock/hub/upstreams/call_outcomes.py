"""How the last calls to one server ended: for its health, and for how long draining it will take."""

from __future__ import annotations

from collections import deque
from typing import Final

from interlock.hub.audit.record import Outcome
from interlock.protocols.mgp.health import Health

KEPT: Final = 20
"""How many calls are looked back on."""
ENOUGH: Final = 5
"""From this many calls on, failed calls count. One bad argument or two say nothing of a server."""
UNANSWERED: Final = 3
"""So many calls without an answer count before that."""
_NOT_ITS_FAULT: Final = frozenset({"cancelled", "not_sent"})
_NO_ANSWER: Final = frozenset({"timeout", "lost", "unknown"})
_CALLERS_FAULT: Final = frozenset({-32600, -32601, -32602})
"""The codes of JSON-RPC for requests that are wrong."""


class CallOutcomes:
    """The last calls to one server."""

    def __init__(self) -> None:
        self.ended: deque[tuple[Outcome | None, int]] = deque(maxlen=4 * KEPT)
        """The outcome and the microseconds of each call, as they end. Readers work out the rest, so no call pays."""

    @property
    def usual_ms(self) -> float:
        """How long the last calls took, on average; 0 before the first."""
        calls = self._calls()
        return sum(took_us for _, took_us in calls) / 1000 / len(calls) if calls else 0.0

    def _calls(self) -> list[tuple[Outcome, int]]:
        """The last calls, without those that never reached the server, or that were cancelled or wrong."""
        calls = [
            (outcome, took_us)
            for outcome, took_us in self.ended
            if outcome is not None and outcome.transport not in _NOT_ITS_FAULT and outcome.code not in _CALLERS_FAULT
        ]
        return calls[-KEPT:]

    @property
    def failed(self) -> int:
        """How many of the last calls failed."""
        return sum(outcome.result != "SUCCESS" for outcome, _ in self._calls())

    @property
    def counted(self) -> int:
        """How many calls are looked back on now."""
        return len(self._calls())

    @property
    def health(self) -> Health:
        """A server whose every call fails is unhealthy. One of whose calls most fail is degraded."""
        failed, counted = self.failed, self.counted
        if counted < ENOUGH:
            unanswered = sum(outcome.transport in _NO_ANSWER for outcome, _ in self._calls())
            return Health.DEGRADED if unanswered >= UNANSWERED else Health.HEALTHY
        if failed == counted:
            return Health.UNHEALTHY
        return Health.DEGRADED if failed * 2 > counted else Health.HEALTHY
