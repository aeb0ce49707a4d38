"""What waits to be written: whole records, and calls under way, which become records when they are written.

A call is recorded as intended and as ended in one entry if it ends before the entry leaves for the database, and that
most calls do; so nothing is put into its final form before it has to be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from time import time_ns
from typing import Final, TypeAlias

import msgspec

from interlock.hub.audit.record import EXECUTED, INTENDED, OTHER_EXECUTED, Outcome, Record, is_event
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.wire.large import Read

KEPT_BYTES: Final = 1024
"""Arguments up to this size wait as they are and are hashed off the loop; larger ones are not held on to."""


class Ticket(msgspec.Struct, eq=False):
    """A call that was recorded as intended. Its outcome is recorded once."""

    seq: int
    """The place of its intent."""
    at_ns: int
    principal: Principal
    target: Target
    trace: str
    arguments: bytes | str
    """As they were judged, or their digest."""
    began: float
    details: Mapping[str, object] = {}
    open: bool = True
    outcome: Outcome | None = None
    """How it ended, if it did before its entry left."""
    reason: str = ""
    took_us: int = 0

    def record(self) -> Record:
        """The entry at the place of its intent."""
        outcome, target = self.outcome, self.target
        ended = outcome is not None
        return Record(
            self.seq,
            self.at_ns // 1000,
            EXECUTED.get(target.kind, OTHER_EXECUTED) if ended else INTENDED,
            self.principal.id,
            self.principal.kind,
            target.kind,
            target.server,
            target.name,
            self.trace,
            self.seq if ended else 0,
            outcome,
            reason=self.reason,
            duration_us=self.took_us if ended else None,
            arguments=digest(self.arguments),
            details=dict(self.details),
        )

    def ending(self, seq: int, at_us: int, outcome: Outcome, reason: str, details: Mapping[str, object]) -> Record:
        """The entry of its outcome, at a place of its own."""
        target = self.target
        return Record(
            seq,
            at_us,
            EXECUTED.get(target.kind, OTHER_EXECUTED),
            self.principal.id,
            self.principal.kind,
            target.kind,
            target.server,
            target.name,
            self.trace,
            self.seq,
            outcome,
            reason=reason,
            duration_us=self.took_us,
            arguments=digest(self.arguments),
            details=dict(details),
        )


Entry: TypeAlias = Record | Ticket


class Written:
    """Entries that were committed, as they were. They become records when somebody looks at them as such."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Record]:
        for entry in self.entries:
            yield entry.record() if isinstance(entry, Ticket) else entry


NOBODY: Final = Principal("", "service")


def happening(
    event: str,
    principal: Principal = NOBODY,
    target: Target | None = None,
    trace: str = "",
    *,
    rule: str = "",
    reason: str = "",
    claimed_by: str = "",
    details: Mapping[str, object] | None = None,
) -> Record:
    """The record of anything that is not a call. It has no place yet."""
    if not is_event(event):
        raise ValueError(f"{event!r} is not an event type; a custom one is written like com.example.event")
    return Record(
        0,
        time_ns() // 1000,
        event,
        principal.id,
        principal.kind if principal.id else "",
        "" if target is None else target.kind,
        "" if target is None else target.server,
        "" if target is None else target.name,
        trace,
        rule=rule,
        reason=reason,
        claimed_by=claimed_by,
        details=dict(details or {}),
    )


def digest(arguments: bytes | str) -> str:
    """SHA-256 of arguments; empty for none."""
    if isinstance(arguments, str):
        return arguments
    if type(arguments) is Read and arguments.digest:
        return arguments.digest
    return hashlib.sha256(arguments).hexdigest() if arguments else ""
