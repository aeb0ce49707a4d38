"""When one server is tried again after a failure: by its restart policy, and by calls (MGP, Restart Policies)."""

from __future__ import annotations

import math
from typing import Final

from interlock.hub.upstreams.commands import Command, Reason, Verb
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.restarts import Restarts, requested_wait_s
from interlock.hub.upstreams.unavailable import RETRY_AFTER_MS
from interlock.wire.errors import Fault

END_EARLY_S: Final = 15.0
"""A contained server is restarted this long before its time is over, so that its open calls can finish."""
RETRY_GIVEN_UP_S: Final = 30.0
"""A server that failed too often stays down this long. The next call after that starts it again."""
LOGIN_EVERY_S: Final = 5.0
"""Calls try a server that needs a login at most this often."""
TRY_EVERY_S: Final = 1.0
"""Calls restart a server that is down at most this often."""


class RestartPlan:
    """The plan for one server, made anew with each failure."""

    def __init__(self, current: CurrentSettings, restarts: Restarts, logs: Logs) -> None:
        self._current = current
        self._restarts = restarts
        self._logs = logs
        self.given_up = False
        """Whether the server stays down after too many restarts."""
        self.not_before = 0.0
        """No call restarts the server before this time."""
        self.coming_back = False
        """Whether the server was connected when it failed, and its restart is due or under way."""

    def on_start(self) -> None:
        """The server is tried again."""
        self.given_up = False

    def on_connected(self) -> None:
        """The server is back."""
        self.coming_back = False

    def retry_ms(self, now: float) -> int:
        """When a caller may try again."""
        left = self.not_before - now
        return RETRY_AFTER_MS if left == math.inf else max(RETRY_AFTER_MS, math.ceil(left * 1000))

    def stays_away(self, failure: Fault, was_connected: bool) -> bool:
        """Whether a connected server exited without an error, and its policy restarts it only after one."""
        exited = was_connected and failure.data.get("exit_code") == 0
        return exited and self._current.server.restart.policy == "on_failure"

    def pause_after(self, failure: Fault, was_connected: bool, now: float) -> float | None:
        """Seconds until the next try; None when the server stays down until a call, a person or a reload retries it."""
        pause = self._pause_after(failure, was_connected, now)
        self.coming_back = pause is not None and was_connected
        return pause

    def before_its_end(self, began: float) -> tuple[float, Command] | None:
        """When and how a contained server ends before its containment ends it: with a restart if its policy has one."""
        server = self._current.server
        if server.isolation == "none" or server.sandbox.time_s <= END_EARLY_S:
            return None
        verb: Verb = "drain" if server.restart.policy == "never" else "restart"
        at = began + server.sandbox.time_s - END_EARLY_S
        return at, Command(verb, Reason.RESOURCE_LIMIT, because="its time is over")

    def try_at_once(self) -> None:
        """Let the next start begin at once."""
        self.not_before = 0.0

    def _pause_after(self, failure: Fault, was_connected: bool, now: float) -> float | None:
        settings = self._current.server
        self.not_before = math.inf
        if settings.problem is not None or failure.name == "PERMISSION_DENIED":
            # Only another configuration or a person can fix this.
            return None
        if failure.name == "LOGIN_REQUIRED":
            # A person has to log in, perhaps at another hub of the same store: a later call finds out.
            self.not_before = now + LOGIN_EVERY_S
            return None
        failed = failure.data.get("exit_code") != 0
        pause = self._restarts.next_pause(now, failed=failed) if was_connected else self._restarts.pause_unreached()
        if pause is not None:
            requested = requested_wait_s(failure)
            self.not_before = now + max(requested, TRY_EVERY_S)
            return max(pause, requested)
        if settings.restart.policy == "never":
            self._log("stays down, as its restart policy is `never`")
            return None
        self.given_up = True
        self.not_before = now + RETRY_GIVEN_UP_S
        self._log("stays down after too many restarts; a later call tries again")
        return None

    def _log(self, text: str) -> None:
        self._logs.add(self._current.id, "hub", text)
