"""The health of one server: its own status, whether it answers checks, and how its calls end.

The worst of the three counts, so a server whose every call fails is never healthy. Health is about a running server:
a server that is down or stopped has a state for that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from interlock.hub.upstreams.call_outcomes import CallOutcomes
from interlock.protocols.mgp.health import Health, health_of, worst

SILENT: Final = 3
"""From this many unanswered checks in a row on, a server is unhealthy; before, degraded."""


class ServerHealth:
    """One server's health, as the hub knows it."""

    def __init__(self, outcomes: CallOutcomes) -> None:
        self._outcomes = outcomes
        self._declared: object = Health.HEALTHY.value
        """The status that it reported."""
        self._unanswered = 0
        self.checked_at: datetime | None = None
        """When the hub last asked."""
        self.answer_ms: float | None = None
        """How long the last answer took; None where none came."""

    def on_answer(self, status: str, took_ms: float) -> None:
        """The server answered a check."""
        self._declared, self._unanswered = status, 0
        self.checked_at, self.answer_ms = datetime.now(UTC), round(took_ms, 2)

    def on_status(self, status: object) -> None:
        """Take the full answer of the server. Its checks ran for this answer, so it replaces the status of a ping."""
        self._declared = status

    def on_silence(self) -> None:
        """The server did not answer a check in time."""
        self._unanswered += 1
        self.checked_at, self.answer_ms = datetime.now(UTC), None

    def on_connected(self) -> None:
        """Forget what an earlier run of the server said. How its calls ended still counts."""
        self._declared, self._unanswered = Health.HEALTHY.value, 0

    @property
    def now(self) -> Health:
        """The health of the server while it runs."""
        if self._declared == Health.HEALTHY.value and not self._unanswered:  # of most servers, every second
            return self._outcomes.health
        return worst(health_of(self._declared), self._silence, self._outcomes.health)

    @property
    def reasons(self) -> list[str]:
        """Why the server is not healthy."""
        found = []
        declared = health_of(self._declared)
        if declared is not Health.HEALTHY:
            known = self._declared == declared.value
            found.append(f"it says it is {self._declared if known else repr(str(self._declared)[:40])}")
        if self._unanswered:
            times = "the last check" if self._unanswered == 1 else f"the last {self._unanswered} checks"
            found.append(f"it did not answer {times}")
        if self._outcomes.health is not Health.HEALTHY:
            found.append(f"{self._outcomes.failed} of its last {self._outcomes.counted} calls failed")
        return found

    @property
    def _silence(self) -> Health:
        if not self._unanswered:
            return Health.HEALTHY
        return Health.UNHEALTHY if self._unanswered >= SILENT else Health.DEGRADED
