"""Deadlines and errors for an audit log that cannot be written in time, or at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from interlock.store import Conflict, NotRecorded, StoreBusy, StoreError
from interlock.wire.errors import Fault

MAX_UNWRITTEN_S: Final = 1.0
"""While the oldest entry has waited longer than this, calls wait until their own intents are committed. So a sudden end
of the hub loses at most the entries of that time."""
MAX_WAIT_S: Final = 10.0
"""After this additional time the hub refuses new calls instead of letting them wait."""
GRACE_S: Final = 0.05
LOADED: Final = "check the load of the machine, its disk, and which other program has the database open"


class CommitSlow(Fault):
    """The database is slow: an intent is only recorded for a call that waits for its commit."""

    def __init__(self) -> None:
        message = f"the database has not committed an entry of the audit log for {MAX_UNWRITTEN_S:g} s"
        super().__init__("RESOURCE_EXHAUSTED", message, hint=LOADED, retry_after_ms=1000)


class CommitDeadline:
    """Reports a batch that the database does not commit in time: first that it is late, then that it is overdue."""

    def __init__(self, on_late: Callable[[], None], on_overdue: Callable[[StoreError], None]) -> None:
        self.late = False
        """Whether the oldest entry has waited for longer than `MAX_UNWRITTEN_S`."""
        self._on_late = on_late
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends = 0.0

    def start(self, waited_s: float) -> None:
        """Start the deadline of a batch whose oldest entry has already waited `waited_s`."""
        if self._timer is None:
            # The database gets its time from now on, however long the entry has waited before.
            self._wait_until(monotonic() + max(0.0, MAX_UNWRITTEN_S - waited_s))

    def stop(self) -> None:
        """Stop, because the database has answered."""
        self.late = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_until(self, ends: float) -> None:
        self._ends = ends
        self._timer = self._loop.call_later(max(0.0, ends - monotonic()), self._check)

    def _check(self) -> None:
        if self._ends > monotonic():  # The loop has a different clock.
            self._wait_until(self._ends)
        else:
            # After a stall, the timer and the database's answer are due together. Let the answer run first.
            self._timer = self._loop.call_later(GRACE_S, self._report)

    def _report(self) -> None:
        if not self.late:
            self.late = True
            self._wait_until(self._ends + MAX_WAIT_S)
            self._on_late()
        else:
            self._timer = None
            message = f"the database has not committed an entry for {MAX_UNWRITTEN_S + MAX_WAIT_S:g} s"
            self._on_overdue(StoreBusy(message, LOADED))


def explained(error: StoreError, chain: str) -> StoreError:
    """Why a batch was not committed. A duplicate sequence number means that another hub writes the same chain."""
    if not isinstance(error, Conflict):
        return error
    return StoreError(
        f"another hub writes the audit chain {chain}", "run one hub for each home, or give it another name"
    )


def cannot_record(error: StoreError | None) -> Fault:
    """The fault for a call that cannot be recorded; without an error, because too many entries wait."""
    if error is None:
        return Fault("RESOURCE_EXHAUSTED", "too many entries wait for the audit log", retry_after_ms=100)
    return Fault(
        "RESOURCE_EXHAUSTED",
        f"the hub makes no call while it cannot write the audit log: {error.message}",
        hint="call again later; `interlock status` tells an operator more",
        retry_after_ms=1000,
        operator_text=error.operator_text,
    )


def not_recorded(cause: StoreError | None) -> NotRecorded:
    """The error for a change that cannot be recorded."""
    stopped = "the hub changes nothing while it cannot write the audit log"
    if cause is None:
        return NotRecorded(f"{stopped}: too many entries wait")
    return NotRecorded(f"{stopped}: {cause.message}", cause.hint, operator_text=cause.operator_text)
