"""Decides when a server that is down is started again (MGP, Restart Policies).

A server that was connected and exits too often within a window stays down. The hub tries a server that it cannot
reach or start again without limit. Pauses grow in both cases.
"""

from __future__ import annotations

import random
from typing import Final

from interlock.config.settings import RestartSettings
from interlock.wire.errors import Fault

MAX_REQUESTED_S: Final = 300.0
"""The hub tries a server again after this time even if the server requested a longer pause."""
UNREACHED_S: Final = 60.0
"""The longest pause between two tries to reach a server."""
MAX_DOUBLINGS: Final = 20
"""Every pause has reached its limit after this many doublings."""


class Restarts:
    """Counts the restarts of one server and gives the pause before the next, or None when there is none."""

    def __init__(self, rules: RestartSettings) -> None:
        self._rules = rules
        self._at: list[float] = []
        self._unreached = 0
        self.total = 0

    def failures(self, now: float) -> int:
        """How often the server failed lately."""
        return sum(now - at < self._rules.window_s for at in self._at) + self._unreached

    def next_pause(self, now: float, *, failed: bool) -> float | None:
        """Seconds until the next try of a server that had been connected; None when the policy says to stay down."""
        rules = self._rules
        if rules.policy == "never" or (rules.policy == "on_failure" and not failed):
            return None
        self._at = [at for at in self._at if now - at < rules.window_s]
        if len(self._at) >= rules.max_restarts:
            return None
        pause = self._pause(len(self._at), rules.backoff_max_ms / 1000)
        self._at.append(now)
        return pause

    def pause_unreached(self) -> float | None:
        """Seconds until the next try of a server that could not be reached or started; None where there is none."""
        if self._rules.policy == "never":
            return None
        pause = self._pause(self._unreached, min(UNREACHED_S, 2 * self._rules.backoff_max_ms / 1000))
        self._unreached += 1
        return pause

    def reached(self) -> None:
        """The server is connected."""
        self._unreached = 0

    def forget(self) -> None:
        """Start counting anew, as a person asked for the restart."""
        self._at.clear()
        self._unreached = 0

    def _pause(self, before: int, longest_s: float) -> float:
        self.total += 1
        pause = min(longest_s, self._rules.backoff_base_ms / 1000 * 2.0 ** min(before, MAX_DOUBLINGS))
        # Chance spreads out the restarts of servers that failed together.
        return pause * random.uniform(0.8, 1.2)


def requested_wait_s(fault: Fault) -> float:
    """The pause that a server requested with a retryable error, within the limit."""
    requested = fault.retry_after_ms if fault.kind.retryable else None
    return min((requested or 0) / 1000, MAX_REQUESTED_S)
