"""Records what happens, from the hot path, without waiting: entries gather and are committed together off the loop.

An intent reserves the place of its outcome, so that only a new call can be refused for want of room, never its end. As
long as entries cannot be written, no new call is let through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter, sleep, time_ns
from types import MappingProxyType
from typing import Any, Final

import msgspec

from interlock.hub.audit.call_rows import CallRows
from interlock.hub.audit.chain import row_of
from interlock.hub.audit.entries import KEPT_BYTES, NOBODY, Entry, Ticket, Written, digest, happening
from interlock.hub.audit.head import Head, HeadFile
from interlock.hub.audit.record import (
    BLOCKED,
    CLOSED,
    NOT_SENT,
    OTHER_BLOCKED,
    OVERFLOWED,
    Outcome,
    Record,
)
from interlock.hub.audit.recorded_changes import RecordedChange, attempt
from interlock.hub.audit.redaction import RedactText, plain, redact, redact_text
from interlock.hub.audit.resume import Resumed, resume
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Conflict, NotRecorded, Store, StoreError
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.documents import Change, Changes
from interlock.wire.errors import Fault

WINDOW_S: Final = 0.02
"""How long an entry waits for others."""
HOLD_S: Final = 0.1
"""How long an intent waits for its outcome, so that the two become one entry, and everything behind it with it."""
FLUSH_AT: Final = 256
"""How many entries do not wait any longer."""
MOST_TOGETHER: Final = 4096
FEW: Final = 128
PIECE: Final = 16
BREATH_S: Final = 0.00002
"""Where few callers are, each would wait for the whole of a batch: so few entries are written in pieces, and the loop
goes first in between. More are written in one go, which is cheaper for all."""
MOST_WAITING: Final = 65_536
"""Entries that wait to be written, with the places that calls under way have reserved."""
_RETRY_S: Final = (0.1, 0.5, 2.0)

Committed = Callable[[StoreError | None], None]
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Recorder:
    """Writes one chain. Made by `Recorder.open`, used on the loop's thread."""

    def __init__(
        self, store: Store, head_file: HeadFile, head: Head, resumed: Resumed, redact_with: RedactText, most: int
    ) -> None:
        self.chain = head.chain
        self.resumed = resumed
        """What the last run left behind."""
        self.trouble: StoreError | None = None
        """Why entries cannot be written at the moment. Calls are refused for as long."""
        self._followers: list[Callable[[Written], None]] = []
        self._store = store
        self._head = head_file
        self._hash = head.hash
        self._seq = head.seq
        self._redact = redact_with
        self._most = most
        self._waiting: list[tuple[Ticket, Committed]] = []
        self._queue: list[Entry] = []
        """Entries in the order of their places, without a hole, that have never been sent to the database."""
        self._flying: list[Entry] = []
        self._flown = head.seq
        """The place of the last entry that left the queue: none up to it changes any more."""
        self._again: list[Entry] = []
        """Entries that were sent and may or may not have been written. They are sent again as they were."""
        self._young: dict[int, Ticket] = {}
        """Calls without an outcome whose intents are in the queue."""
        self._open: dict[int, None] = {}
        """The places of intents that left it, until their outcomes are committed too."""
        """The oldest intent that may be without its outcome once what is being written is committed. An outcome that
        came since then still waits itself."""
        self._changes: dict[int, RecordedChange] = {}
        """Changes that are committed with their records, by the places of these."""
        self._unrecorded = 0
        self._failures = 0
        self._doubtful = False
        self._timer: asyncio.TimerHandle | None = None
        self._urgent = False
        self._flushing: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits for everything up to a place."""
        self._loop = asyncio.get_running_loop()
        self._unsynced = False
        self._syncing = ThreadPoolExecutor(1, thread_name_prefix="audit-head")
        self._issue = head_file.issue
        self._calls = CallRows(head.chain)
        self._measure()
        store.commit_records_with(self.carry_out)

    @classmethod
    async def open(
        cls,
        store: Store,
        chain: str,
        head_file: Path,
        *,
        redact_with: RedactText = plain,
        most: int = MOST_WAITING,
    ) -> Recorder:
        """Go on with a chain: finds and records what the last run lost or left without an outcome.

        Raises StoreError if that cannot be written: without its record the hub does not start.
        """
        # The old head stays until what it shows is recorded: killed in between, the next start sees the same.
        resumed, seq, hash_ = await store.commit(partial(_open_chain, chain, head_file))
        head = Head(chain, seq, hash_, seq + 1, seq)
        file = await asyncio.to_thread(HeadFile, head_file, head)
        return cls(store, file, head, resumed, redact_with, most)

    def intent(
        self,
        principal: Principal,
        target: Target,
        trace: str,
        arguments: bytes = b"",
        committed: Committed | None = None,
    ) -> Ticket:
        """Record that a call is about to be sent. Raises Fault if it must not be.

        With `committed` the call may be sent only when that was called with None (`strict`). When it is called with an
        error, the call must be refused; that it was not sent is recorded by itself.
        """
        queue, young = self._queue, self._young
        if self.trouble is not None or len(queue) + len(young) >= self._room:
            raise self._queue_full()
        seq = self._seq = self._seq + 1
        held = arguments if len(arguments) <= KEPT_BYTES else digest(arguments)
        ticket = Ticket(seq, time_ns(), principal, target, trace, held, perf_counter())
        young[seq] = ticket
        queue.append(ticket)
        self._issue(seq)
        if committed is not None:
            self._waiting.append((ticket, committed))
            self._schedule()
        elif self._timer is None:
            self._schedule()
        return ticket

    def outcome(
        self, ticket: Ticket, outcome: Outcome, reason: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        """Record how a call ended. A second outcome of the same call is ignored.

        Where the intent has not left for the database yet, the two become one entry.
        """
        if not ticket.open:
            return
        ticket.open = False
        seq = ticket.seq
        ticket.took_us = int((perf_counter() - ticket.began) * 1_000_000)
        if seq > self._flown:
            del self._young[seq]
            ticket.outcome = outcome
            if reason:
                ticket.reason = reason
            if details:
                ticket.details = details
        else:
            self._put(ticket.ending(self._next(), _now(), outcome, reason, details or _NOTHING))

    def _queue_full(self) -> Fault:
        if self.trouble is None:
            return Fault("RESOURCE_EXHAUSTED", "too many records wait to be written", retry_after_ms=100)
        return Fault(
            "RESOURCE_EXHAUSTED",
            f"no call is made while the audit record cannot be written: {self.trouble.message}",
            hint=self.trouble.hint,
            retry_after_ms=1000,
        )

    def refusal(
        self,
        principal: Principal,
        target: Target,
        trace: str,
        gate: str,
        rule: str,
        reason: str = "",
        arguments: bytes = b"",
        *,
        event: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Record that a call was refused. Where there is no room, how many were not recorded is recorded later."""
        self.note(
            Record(
                0,
                _now(),
                event or BLOCKED.get(target.kind, OTHER_BLOCKED),
                principal.id,
                principal.kind,
                target.kind,
                target.server,
                target.name,
                trace,
                gate=gate,
                rule=rule,
                reason=reason,
                arguments=digest(arguments),
                details=dict(details or {}),
            )
        )

    def event(
        self,
        event: str,
        principal: Principal = NOBODY,
        target: Target | None = None,
        trace: str = "",
        *,
        rule: str = "",
        reason: str = "",
        claimed_by: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Record anything else: a grant, a server that came or went, or with `claimed_by` what a server says."""
        self.note(
            happening(event, principal, target, trace, rule=rule, reason=reason, claimed_by=claimed_by, details=details)
        )

    async def carry_out(self, changes: Changes, records: Sequence[object]) -> list[Change]:
        """Commit changes and their records as one. Raises StoreError: then neither is there, as far as is known."""
        if self.trouble is not None or self._taken() + len(records) > self._most:
            raise _not_recorded(self.trouble)
        change = RecordedChange(changes, self._seq + 1)
        for record in records:
            assert isinstance(record, Record)
            seq = self._next()
            self._changes[seq] = change
            self._put(msgspec.structs.replace(record, seq=seq))
        try:
            await self.flushed()
        except StoreError as cause:
            raise _not_recorded(cause) from None
        if change.error is not None:
            raise change.error
        return change.done

    @property
    def waiting(self) -> int:
        """Entries that are not committed yet."""
        return len(self._queue) + len(self._flying) + len(self._again)

    @property
    def lag_s(self) -> float:
        """How long the oldest of them has waited."""
        oldest = next((part[0] for part in (self._again, self._flying, self._queue) if part), None)
        if oldest is None:
            return 0.0
        since = oldest.at_ns // 1000 if isinstance(oldest, Ticket) else oldest.at
        return max(0.0, (_now() - since) / 1_000_000)

    def follow(self, tell: Callable[[Written], None]) -> Callable[[], None]:
        """Be told of entries once they are committed, as they were committed. Gives the way to stop."""
        self._followers.append(tell)
        return lambda: self._followers.remove(tell)

    async def flushed(self) -> None:
        """Wait until everything recorded so far is committed. Raises StoreError if it could not be at the first try."""
        if self._queue or self._flying or self._again:
            waiting = self._loop.create_future()
            self._flushing.append((self._seq, waiting))
            self._flush()
            await waiting

    async def close(self) -> None:
        """Commit everything, with a last entry that says that nothing is missing."""
        self._put(Record(self._next(), _now(), CLOSED))
        try:
            await self.flushed()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await asyncio.to_thread(self._syncing.shutdown)
            await asyncio.to_thread(self._head.close)

    def note(self, record: Record) -> None:
        """Record something that has no place yet, or later how many such things there was no room for."""
        if self._taken() >= self._most:
            self._unrecorded += 1
            return
        if self._unrecorded:
            count, self._unrecorded = self._unrecorded, 0
            self._put(Record(self._next(), _now(), OVERFLOWED, details={"not_recorded": count}))
        self._put(msgspec.structs.replace(record, seq=self._next()))

    def _taken(self) -> int:
        return len(self._queue) + len(self._flying) + len(self._again) + len(self._young) + len(self._open)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _put(self, record: Record) -> None:
        self._queue.append(record)
        self._issue(record.seq)
        self._schedule()

    def _schedule(self) -> None:
        if self._flying or self.trouble is not None:
            return
        if self._waiting or len(self._queue) >= FLUSH_AT:
            if not self._urgent:
                # At the next turn of the loop, so that what comes in this turn goes along.
                self._urgent = True
                self._loop.call_soon(self._flush)
        elif self._timer is None:
            self._timer = self._loop.call_later(WINDOW_S, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._urgent = False
        if self._flying or not (self._again or self._queue):
            return
        if self._again:
            self._flying, self._again = self._again, []
        elif not self._take_off():
            self._timer = self._loop.call_later(WINDOW_S, self._flush)
            return
        self._measure()
        try:
            self._store.write(partial(self._write, self._flying), self._written)
        except StoreError as error:
            self._written(None, error)

    def _take_off(self) -> bool:
        """Move what is to be written out of the queue: all before the first call that may still end soon."""
        queue, young = self._queue, self._young
        oldest = next(iter(young.values()), None)
        last = min(len(queue), MOST_TOGETHER)
        while self._changes and last < len(queue) and self._changes.get(queue[last].seq) is not None:
            # All records of a deed are in one commit with it.
            last += 1
        if oldest is not None and not (self._waiting or self._flushing):
            before = oldest.seq - queue[0].seq
            if before < last < MOST_TOGETHER and perf_counter() - oldest.began < HOLD_S:
                last = before
        self._flying, self._queue = queue[:last], queue[last:]
        if not last:
            return False
        self._flown = self._flying[-1].seq
        while oldest is not None and oldest.seq <= self._flown:
            self._open[oldest.seq] = None
            del young[oldest.seq]
            oldest = next(iter(young.values()), None)
        return True

    def _measure(self) -> None:
        """How many may come, with a place for each one's outcome, beside what left the queue already."""
        self._room = self._most - 1 - len(self._flying) - len(self._again) - len(self._open)

    def _write(self, batch: list[Entry], database: Database) -> tuple[bytes, list[Entry]]:
        """On the writer's thread: redact, hash and append. Gives the new head's hash, and the entries as written."""
        database.lock(self.chain)
        clean: list[Entry] = []
        previous = self._hash
        if self._changes:
            batch = attempt(database, self.chain, batch, self._changes, doubtful=self._doubtful)
        piece = len(batch) if self._doubtful or len(batch) > FEW else PIECE
        for at in range(0, len(batch), piece):
            if at:
                sleep(BREATH_S)
            made = []
            for entry in batch[at : at + piece]:
                short = self._calls.row(entry, previous) if type(entry) is Ticket else None
                if short is not None:
                    row, previous = short
                    clean.append(entry)
                else:
                    record, whole = self._row(entry, previous)
                    row, previous = rows.values_of(whole), whole.hash
                    clean.append(record)
                made.append(row)
            if self._doubtful:
                # The connection may have broken after the last commit was done and before that was heard.
                there = rows.get(database, self.chain, clean[-1].seq)
                if there is not None and there.hash == previous:
                    break
            rows.append_values(database, made)
        return previous, clean

    def _row(self, entry: Entry, previous: bytes) -> tuple[Record, rows.RecordRow]:
        """The entry as it is written, and its row."""
        whole = entry.record() if isinstance(entry, Ticket) else entry
        try:
            record = self._clean(whole)
            return record, row_of(self.chain, record, previous)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as cause:
            # What cannot be encoded must not keep the rest from being recorded.
            record = _encodable(whole, cause)
            return record, row_of(self.chain, record, previous)

    def _clean(self, record: Record) -> Record:
        if not record.details and not record.reason and record.kind != "resource":
            return record
        return msgspec.structs.replace(
            record,
            name=redact_text(record.name, self._redact),
            reason=redact_text(record.reason, self._redact),
            details=redact(record.details, self._redact),
        )

    def _written(self, result: Any, error: StoreError | None) -> None:
        batch, self._flying = self._flying, []
        if error is not None:
            self._failed(batch, error)
            self._measure()
            return
        self.trouble, self._failures, self._doubtful = None, 0, False
        self._hash, clean = result
        if self._open:
            for entry in clean:
                if type(entry) is Record and entry.intent and entry.intent != entry.seq:
                    self._open.pop(entry.intent, None)
        self._measure()
        self._head.move(batch[-1].seq, self._hash, next(iter(self._open), batch[-1].seq + 1))
        if not self._unsynced:
            self._unsynced = True
            self._syncing.submit(self._sync)
        self._answer(batch[-1].seq, None)
        if self._changes:
            self._settle(batch)
        for tell in tuple(self._followers):
            tell(Written(clean))
        while self._flushing and self._flushing[0][0] <= batch[-1].seq:
            _, waiting = self._flushing.pop(0)
            if not waiting.done():
                waiting.set_result(None)
        if self._waiting or self._flushing or len(self._queue) >= FLUSH_AT:
            self._flush()
        elif self._queue and self._timer is None:
            self._timer = self._loop.call_later(WINDOW_S, self._flush)

    def _settle(self, batch: list[Entry]) -> None:
        """In-memory copies follow what was committed before anyone goes on."""
        for change in dict.fromkeys(self._changes.pop(entry.seq) for entry in batch if entry.seq in self._changes):
            if change.error is None:
                self._store.deliver(change.done)

    def _sync(self) -> None:
        self._unsynced = False
        self._head.flush()

    def _failed(self, batch: list[Entry], error: StoreError) -> None:
        """Nothing is given up: the same entries are tried again, and no new call is let through meanwhile."""
        if isinstance(error, Conflict):
            error = StoreError(
                f"another hub writes the audit chain {self.chain}", "run one hub for each home, or give it another name"
            )
        self.trouble = error
        self._doubtful = True
        for change in self._changes.values():
            change.given_up = True
        self._again = batch
        self._answer(self._seq, error)
        flushing, self._flushing = self._flushing, []
        for _, waiting in flushing:
            if not waiting.done():
                waiting.set_exception(error)
        if self._timer is None:
            self._timer = self._loop.call_later(_RETRY_S[min(self._failures, len(_RETRY_S) - 1)], self._flush)
        self._failures += 1

    def _answer(self, upto: int, error: StoreError | None) -> None:
        """Tell the strict calls among the entries up to a place."""
        due = [(ticket, tell) for ticket, tell in self._waiting if ticket.seq <= upto]
        self._waiting = self._waiting[len(due) :]
        for ticket, tell in due:
            if error is not None:
                self.outcome(ticket, NOT_SENT, error.message)
            tell(error)


def _not_recorded(cause: StoreError | None) -> NotRecorded:
    why = "too many records wait" if cause is None else cause.message
    said = f"nothing is changed while the audit record cannot be written: {why}"
    return NotRecorded(said, "" if cause is None else cause.hint)


def _open_chain(chain: str, head_file: Path, database: Database) -> tuple[Resumed, int, bytes]:
    """Append what is to be recorded first. Gives the place and the hash of the last of it."""
    # A server may still be committing what a killed process sent last: wait for it before looking.
    database.lock(chain)
    resumed = resume(chain, head_file, database)
    made, previous = [], resumed.hash
    for seq, entry in enumerate(resumed.entries, resumed.seq + 1):
        made.append(row_of(chain, msgspec.structs.replace(entry, seq=seq, at=_now()), previous))
        previous = made[-1].hash
    rows.append(database, made)
    return resumed, made[-1].seq, previous


def _encodable(record: Record, cause: Exception) -> Record:
    """A record without what could not be encoded."""
    changed: dict[str, Any] = {
        name: value.encode("utf-8", "replace").decode()
        for name in record.__struct_fields__
        if isinstance(value := getattr(record, name), str)
    }
    changed["details"] = {"not_recorded": f"the details: {type(cause).__name__}"}
    return msgspec.structs.replace(record, **changed)


def _now() -> int:
    return time_ns() // 1000
