"""How the last calls to one server ended: for its health, and for how long draining it will take."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from interlock.hub.audit.record import Outcome
from interlock.protocols.mgp.health import Health

KEPT: Final = 20
"""How many of the last calls count."""
ENOUGH: Final = 5
"""From this many calls on, failed calls count: one or two bad arguments say nothing about a server."""
UNANSWERED: Final = 3
"""This many calls without an answer count even before."""
_NOT_ITS_FAULT: Final = frozenset({"cancelled", "not_sent"})
_NO_ANSWER: Final = frozenset({"timeout", "lost", "unknown"})
_CALLERS_FAULT: Final = frozenset({-32600, -32601, -32602})
"""The codes of JSON-RPC for requests that are wrong."""


class CallOutcomes:
    """The last calls to one server."""

    def __init__(self) -> None:
        self.ended: deque[tuple[Outcome | None, int]] = deque(maxlen=4 * KEPT)
        """The outcome and the microseconds of each call. Readers compute the rest, so that calls stay cheap. After an
        outcome that is not `ok`, call `on_failure`."""
        self._may_fail = False
        """Whether one of the calls that count may have failed. The health of a thousand servers is read each second,
        and most have no failed call."""

    def on_failure(self) -> None:
        """The last call may count as failed."""
        self._may_fail = True

    @property
    def usual_ms(self) -> float:
        """How long the last calls took, on average; 0 before the first."""
        calls = self._last()
        return calls.took_us / 1000 / calls.counted if calls.counted else 0.0

    @property
    def failed(self) -> int:
        """How many of the last calls failed."""
        return self._last().failed

    @property
    def counted(self) -> int:
        """How many calls count now."""
        return self._last().counted

    @property
    def health(self) -> Health:
        """`unhealthy` if every call fails, `degraded` if most do."""
        if not self._may_fail:
            return Health.HEALTHY
        calls = self._last()
        self._may_fail = calls.failed > 0  # A call that no longer counts never counts again.
        if calls.counted < ENOUGH:
            return Health.DEGRADED if calls.unanswered >= UNANSWERED else Health.HEALTHY
        if calls.failed == calls.counted:
            return Health.UNHEALTHY
        return Health.DEGRADED if calls.failed * 2 > calls.counted else Health.HEALTHY

    def _last(self) -> _Sums:
        """The sums of the last calls, without those that never reached the server, or that were cancelled or wrong."""
        counted = failed = unanswered = total_us = 0
        for outcome, took_us in reversed(self.ended):
            if outcome is None:
                continue
            if outcome.tool != "ok":  # Most tools succeed. Every other outcome needs a closer look.
                if outcome.transport in _NOT_ITS_FAULT or outcome.code in _CALLERS_FAULT:
                    continue
                failed += outcome.result != "SUCCESS"
                unanswered += outcome.transport in _NO_ANSWER
            counted += 1
            total_us += took_us
            if counted == KEPT:
                break
        return _Sums(counted, failed, unanswered, total_us)


class _Sums(NamedTuple):
    """The sums of the calls that count."""

    counted: int
    failed: int
    unanswered: int
    took_us: int
