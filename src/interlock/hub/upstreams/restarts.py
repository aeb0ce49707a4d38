"""When a server that went away is tried again (MGP, Restart Policies): counted in a window, with growing pauses."""

from __future__ import annotations

import random
from typing import Final

from interlock.config.settings import Restart
from interlock.wire.errors import Fault

LONGEST_ASKED_S: Final = 300.0
"""A server that wants to be left alone for longer is asked again after this time."""


class Restarts:
    """Counts the restarts of one server and says how long to wait for the next, or that there is none."""

    def __init__(self, rules: Restart) -> None:
        self._rules = rules
        self._at: list[float] = []
        self.total = 0

    def next_pause(self, now: float, *, failed: bool) -> float | None:
        """Seconds until the next try; None when the policy says to stay down."""
        rules = self._rules
        if rules.policy == "never" or (rules.policy == "on_failure" and not failed):
            return None
        self._at = [at for at in self._at if now - at < rules.window_s]
        if len(self._at) >= rules.max_restarts:
            return None
        pause = min(float(rules.backoff_max_ms), rules.backoff_base_ms * 2.0 ** len(self._at)) / 1000
        self._at.append(now)
        self.total += 1
        # Servers that fell together should not come back in lockstep.
        return pause * random.uniform(0.8, 1.2)

    def forget(self) -> None:
        """It runs well again, or a person asked: the count starts anew."""
        self._at.clear()


def asked_to_wait_s(fault: Fault) -> float:
    """How long a server wants to be left alone, where it says so and may be asked again at all."""
    said = fault.retry_after_ms if fault.kind.retryable else None
    return min((said or 0) / 1000, LONGEST_ASKED_S)
