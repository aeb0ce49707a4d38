"""The hub's reaction when the audit log cannot be written, or not in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from interlock.store import Conflict, NotRecorded, StoreBusy, StoreError
from interlock.wire.errors import Fault

MAX_UNWRITTEN_S: Final = 1.0
"""The hub makes no new call while the oldest entry waits longer than this. So a sudden end of the hub costs the
entries of that time at most."""


GRACE_S: Final = 0.05


class CommitDeadline:
    """Reports a batch that the database does not commit in time."""

    def __init__(self, on_overdue: Callable[[StoreError], None]) -> None:
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._overdue_at = 0.0

    def start(self, waited_s: float) -> None:
        """A batch leaves for the database whose oldest entry has waited so long already."""
        if self._timer is None:
            self._overdue_at = monotonic() + MAX_UNWRITTEN_S - waited_s
            self._wait(MAX_UNWRITTEN_S - waited_s)

    def stop(self) -> None:
        """The database has answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(max(0.0, seconds), self._check)

    def _check(self) -> None:
        left = self._overdue_at - monotonic()
        if left > 0:  # the loop's clock is not this one
            self._wait(left)
        else:
            # A loop that was held up finds the timer and the database's answer together: the answer goes first.
            self._timer = self._loop.call_later(GRACE_S, self._report)

    def _report(self) -> None:
        self._timer = None
        self._on_overdue(StoreBusy(f"the database has not committed an entry for {MAX_UNWRITTEN_S:g} s"))


def explained(error: StoreError, chain: str) -> StoreError:
    """Why a batch was not committed. A sequence number that exists already was given by another hub."""
    if not isinstance(error, Conflict):
        return error
    return StoreError(
        f"another hub writes the audit chain {chain}", "run one hub for each home, or give it another name"
    )


def cannot_record(error: StoreError | None) -> Fault:
    """The fault for a call that cannot be recorded; without an error, because too many entries wait."""
    if error is None:
        return Fault("RESOURCE_EXHAUSTED", "too many entries wait for the audit log", retry_after_ms=100)
    message = f"the hub makes no call while it cannot write the audit log: {error.message}"
    return Fault("RESOURCE_EXHAUSTED", message, hint=error.hint, retry_after_ms=1000)


def not_recorded(cause: StoreError | None) -> NotRecorded:
    """The error for a change that cannot be recorded."""
    why, hint = ("too many entries wait", "") if cause is None else (cause.message, cause.hint)
    return NotRecorded(f"the hub changes nothing while it cannot write the audit log: {why}", hint)
