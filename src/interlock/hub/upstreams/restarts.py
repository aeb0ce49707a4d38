"""When a server that is down is tried again (MGP, Restart Policies).

Exits of a server that had been connected are counted in a window, and too many keep it down. A server that cannot be
reached or started is tried again without limit. Pauses grow in both cases.
"""

from __future__ import annotations

import random
from typing import Final

from interlock.config.settings import Restart
from interlock.wire.errors import Fault

LONGEST_ASKED_S: Final = 300.0
"""A server that wants to be left alone for longer is asked again after this time."""
UNREACHED_S: Final = 60.0
"""The longest pause between two tries to reach a server."""
MOST_DOUBLINGS: Final = 20
"""A pause is at its longest by then."""


class Restarts:
    """Counts the restarts of one server and says how long to wait for the next, or that there is none."""

    def __init__(self, rules: Restart) -> None:
        self._rules = rules
        self._at: list[float] = []
        self._unreached = 0
        self.total = 0

    def failures(self, now: float) -> int:
        """How often it failed lately."""
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
        """It is connected."""
        self._unreached = 0

    def forget(self) -> None:
        """It runs well again, or a person asked: the count starts anew."""
        self._at.clear()
        self._unreached = 0

    def _pause(self, before: int, longest_s: float) -> float:
        self.total += 1
        pause = min(longest_s, self._rules.backoff_base_ms / 1000 * 2.0 ** min(before, MOST_DOUBLINGS))
        # Servers that fell together should not come back in lockstep.
        return pause * random.uniform(0.8, 1.2)


def asked_to_wait_s(fault: Fault) -> float:
    """How long a server wants to be left alone, where it says so and may be asked again at all."""
    said = fault.retry_after_ms if fault.kind.retryable else None
    return min((said or 0) / 1000, LONGEST_ASKED_S)
