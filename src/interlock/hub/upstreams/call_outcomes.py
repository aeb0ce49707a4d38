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


class FailedCall(NamedTuple):
    """A call that failed."""

    took_us: int
    unanswered: bool


class TakenSuccess(int):
    """The microseconds of a call that succeeded before the last `take_success`."""


class CallOutcomes:
    """The last calls to one server. One number is kept for a call that succeeded: with a thousand servers, whatever is
    kept for each call is out of the processor's caches by the time that it is replaced."""

    __slots__ = ("_has_failures", "_unclear", "last")

    def __init__(self) -> None:
        self.last: deque[int | FailedCall] = deque(maxlen=KEPT)
        """The calls that count: the microseconds of each one that succeeded, and those that failed."""
        self._unclear = False
        """Whether a call ended otherwise than with a result of its tool since the last `take_success`."""
        self._has_failures = False

    def on_other_end(self, outcome: Outcome | None, took_us: int) -> None:
        """Note a call that did not succeed. Those that never reached the server, and those that were cancelled or
        wrong, do not count."""
        self._unclear = True
        if outcome is None or outcome.transport in _NOT_ITS_FAULT or outcome.code in _CALLERS_FAULT:
            return
        if outcome.result == "SUCCESS":
            self.last.append(took_us)
        else:
            self.last.append(FailedCall(took_us, outcome.transport in _NO_ANSWER))
            self._has_failures = True

    def take_success(self) -> int | None:
        """The microseconds of the last call since the last time, if there was one and all succeeded; else None."""
        unclear, self._unclear = self._unclear, False
        last = self.last[-1] if self.last else None
        if last is None or isinstance(last, FailedCall | TakenSuccess):
            return None
        # One success counts once. Dry runs and hooks use a server, too, and say nothing of its health.
        self.last[-1] = TakenSuccess(last)
        return None if unclear else last

    @property
    def usual_ms(self) -> float:
        """How long the last calls took, on average; 0 before the first."""
        took_us = sum(call.took_us if isinstance(call, FailedCall) else call for call in self.last)
        return took_us / 1000 / len(self.last) if self.last else 0.0

    @property
    def failed(self) -> int:
        """How many of the last calls failed."""
        return len(self._failures())

    @property
    def counted(self) -> int:
        """How many calls count now."""
        return len(self.last)

    @property
    def health(self) -> Health:
        """`unhealthy` if every call fails, `degraded` if most do."""
        if not self._has_failures:  # as of most servers, each second
            return Health.HEALTHY
        counted, failures = len(self.last), self._failures()
        self._has_failures = bool(failures)
        if counted < ENOUGH:
            unanswered = sum(call.unanswered for call in failures)
            return Health.DEGRADED if unanswered >= UNANSWERED else Health.HEALTHY
        if len(failures) == counted:
            return Health.UNHEALTHY
        return Health.DEGRADED if len(failures) * 2 > counted else Health.HEALTHY

    def _failures(self) -> list[FailedCall]:
        return [call for call in self.last if isinstance(call, FailedCall)]
