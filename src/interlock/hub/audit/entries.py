"""Entries that wait to be written: finished records, and running calls, which become records when they are written.

Most calls end before their entry is written. Then intent and outcome are one entry, so a call is encoded as late as
possible.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from time import perf_counter, time_ns
from typing import Final, NamedTuple, TypeAlias

import msgspec

from interlock.hub.audit.record import EXECUTED, INTENDED, OTHER_EXECUTED, Outcome, Record, is_event
from interlock.hub.auth.principals import Principal, shown_principal
from interlock.hub.catalog.target import Target
from interlock.wire.large import CheckedJson


class TargetJudgement(NamedTuple):
    """The hub's knowledge of a target when a call was made (MGP, Audit Event Format)."""

    risk_level: str = ""
    validator_applied: str = ""


NOT_JUDGED: Final = TargetJudgement()


class Ticket(msgspec.Struct, eq=False):
    """A call that was recorded as intended. Its outcome is recorded once."""

    seq: int
    """The sequence number of its intent."""
    at_ns: int
    principal: Principal
    target: Target
    trace: str
    arguments: bytes | str
    """The arguments as the gates judged them, or their digest."""
    began: float
    details: Mapping[str, object] = {}
    open: bool = True
    outcome: Outcome | None = None
    """How the call ended, if it ended before its entry was written."""
    reason: str = ""
    took_us: int = 0
    judged: TargetJudgement = NOT_JUDGED

    def record(self) -> Record:
        """The entry with the sequence number of its intent."""
        return self.ending(self.seq, self.at_ns // 1000, self.outcome, self.reason, self.details)

    def ending(
        self, seq: int, at_us: int, outcome: Outcome | None, reason: str, details: Mapping[str, object]
    ) -> Record:
        """The entry of its outcome, with a sequence number of its own."""
        target, ended = self.target, outcome is not None
        return Record(
            seq,
            at_us,
            EXECUTED.get(target.kind, OTHER_EXECUTED) if ended else INTENDED,
            self.principal.id,
            self.principal.kind,
            target.kind,
            target.server,
            target.name,
            self.trace,
            self.seq if ended else 0,
            outcome,
            reason=reason,
            duration_us=self.took_us if ended else None,
            arguments=digest(self.arguments),
            details=_detailed(target, details),
            risk_level=self.judged.risk_level,
            validator_applied=self.judged.validator_applied,
        )


Entry: TypeAlias = Record | Ticket


class EntryTimes:
    """Monotonic creation times of queued records. Tickets carry their own."""

    def __init__(self) -> None:
        self._records: deque[tuple[int, float]] = deque()
        """The records in the queue by sequence number."""
        self._batch_began = 0.0

    def add(self, seq: int) -> None:
        """Note that a record joins the queue."""
        self._records.append((seq, perf_counter()))

    def take(self, batch: list[Entry]) -> None:
        """Note that the first entries leave the queue as a batch."""
        self._batch_began, last = self._began(batch[0]), batch[-1].seq
        while self._records and self._records[0][0] <= last:
            self._records.popleft()

    def waited_s(self, batch: list[Entry], queue: list[Entry]) -> float:
        """How long the oldest entry has waited: the first of the last batch, or else of the queue."""
        if not batch and not queue:
            return 0.0
        return perf_counter() - (self._batch_began if batch else self._began(queue[0]))

    def _began(self, first: Entry) -> float:
        return first.began if isinstance(first, Ticket) else self._records[0][1]


NOBODY: Final = Principal("", "service")


def event_record(
    event: str,
    principal: Principal = NOBODY,
    target: Target | None = None,
    trace: str = "",
    rule: str = "",
    reason: str = "",
    claimed_by: str = "",
    details: Mapping[str, object] | None = None,
) -> Record:
    """The record of anything but a call. The recorder numbers it."""
    if not is_event(event):
        raise ValueError(f"{event!r} is no event type; write a custom one like com.example.event")
    return Record(
        0,
        time_ns() // 1000,
        event,
        principal.id,
        principal.kind if principal.id else "",
        *(("", "", "") if target is None else (target.kind, target.server, target.name)),
        trace,
        rule=rule,
        reason=reason,
        claimed_by=claimed_by,
        details=_detailed(target, details or {}),
    )


def _detailed(target: Target | None, details: Mapping[str, object]) -> dict[str, object]:
    """Details of an entry, with the principal of the client that a server asks."""
    return (
        {"within": shown_principal(target.within), **details} if target is not None and target.within else dict(details)
    )


def digest(arguments: bytes | str) -> str:
    """SHA-256 of arguments; empty for none."""
    if isinstance(arguments, str):
        return arguments
    if type(arguments) is CheckedJson and arguments.digest:
        return arguments.digest
    return hashlib.sha256(arguments).hexdigest() if arguments else ""
