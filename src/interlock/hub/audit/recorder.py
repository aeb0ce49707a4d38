"""Records audit entries without delaying callers: entries gather in a queue and are committed together off the loop.

An intent reserves space for its outcome, so a full queue refuses only new calls, never the end of one. While the
database is slow, calls wait for their commits. While entries cannot be written, the recorder refuses new calls.
`states.py` has the table of its states.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any, Final

from msgspec.structs import replace

from interlock.hub.audit.batch_writer import BatchWriter, open_chain
from interlock.hub.audit.commit_publisher import CommitPublisher
from interlock.hub.audit.entries import NOT_JUDGED, Entry, EntryTimes, TargetJudgement, Ticket, digest, event_record
from interlock.hub.audit.head import ChainHead, HeadFile
from interlock.hub.audit.queued_arguments import MAX_QUEUED_BYTES, QueuedArguments
from interlock.hub.audit.record import BLOCKED, CLOSED, NOT_SENT, OTHER_BLOCKED, OVERFLOWED, Outcome, Record
from interlock.hub.audit.recorded_changes import RecordedChange
from interlock.hub.audit.redaction import RedactText, unredacted
from interlock.hub.audit.resume import Resumed
from interlock.hub.audit.states import TRANSITIONS, RecorderEvent, RecorderState
from interlock.hub.audit.write_failures import CommitDeadline, CommitSlow, cannot_record, explained, not_recorded
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store, StoreError
from interlock.store.documents import Change, Changes
from interlock.wire.errors import Fault
from interlock.wire.transitions import next_state

WINDOW_S: Final = 0.05
"""How long an entry waits for others."""
HOLD_S: Final = 0.1
"""How long an intent waits for its outcome, so that both become one entry. Later entries wait with it."""
FLUSH_AT: Final = 256
"""A queue of this length is written at once."""
MAX_BATCH: Final = 4096
MAX_WAITING: Final = 65_536
"""Entries that wait to be written, including the outcomes that running calls have reserved."""
_RETRY_S: Final = (0.1, 0.5, 2.0)

OnCommitted = Callable[[StoreError | None], None]


class Recorder:
    """Writes one chain. Made by `Recorder.open`, used on the loop's thread."""

    def __init__(
        self,
        store: Store,
        head_file: HeadFile,
        head: ChainHead,
        resumed: Resumed,
        redact: RedactText,
        limit: int,
        publisher: CommitPublisher,
    ) -> None:
        self.chain = head.chain
        self.resumed = resumed
        """The state that the last run left."""
        self.write_error: StoreError | None = None
        """Why entries cannot be written at the moment. Calls are refused meanwhile."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._head = head_file
        self._hash = head.hash
        self._arguments = QueuedArguments()
        self._writer = BatchWriter(head.chain, redact, self._arguments)
        self._limit = limit
        self._state = RecorderState.IDLE
        self._timer: asyncio.Handle | None = None
        """Sends the next batch: in GATHERING, DUE and FAILED."""
        self._deadline = CommitDeadline(self._update_capacity, self._on_overdue)
        self._failures = 0
        self._seq = head.seq
        self._queue: list[Entry] = []
        """Entries that have not left for the database, by sequence number without a hole."""
        self._times = EntryTimes()
        self._batch: list[Entry] = []
        """Entries at the database, or in FAILED those to send again."""
        self._last_taken = head.seq
        """The last entry that left the queue: no entry up to it changes any more."""
        self._pending: dict[int, Ticket] = {}
        """Calls without an outcome whose intents are in the queue."""
        self._open_intents: dict[int, None] = {}
        """Intents that left the queue, until their outcomes are committed too."""
        self.strict_calls: list[tuple[Ticket, OnCommitted]] = []
        """Calls that wait for the commit of their intents."""
        self._changes: dict[int, RecordedChange] = {}
        """Changes that are committed with their records, by the sequence numbers of these."""
        self._flush_waiters: list[tuple[int, asyncio.Future[None]]] = []
        """Waiters for the commit of everything up to an entry, in its order."""
        self._unrecorded = 0
        self._publisher = publisher
        self._issue = head_file.issue
        self._update_capacity()
        store.commit_records_with(self.commit)

    @classmethod
    async def open(
        cls,
        store: Store,
        chain: str,
        head_file: Path,
        *,
        redact: RedactText = unredacted,
        limit: int = MAX_WAITING,
        publisher: CommitPublisher | None = None,
    ) -> Recorder:
        """Continue a chain. Records lost entries of the last run, and its calls without an outcome.

        Raises StoreError if that cannot be written: the hub does not start without its audit log.
        """
        # Keep the old head until its findings are recorded, so that a hub killed in between finds them again.
        resumed, seq, hash_ = await store.commit(partial(open_chain, chain, head_file))
        head = ChainHead(chain, seq, hash_, seq + 1, seq)
        file = await asyncio.to_thread(HeadFile, head_file, head)
        return cls(store, file, head, resumed, redact, limit, publisher or CommitPublisher())

    def intent(
        self,
        principal: Principal,
        target: Target,
        trace: str,
        arguments: bytes = b"",
        committed: OnCommitted | None = None,
        judged: TargetJudgement = NOT_JUDGED,
    ) -> Ticket:
        """Record that a call is about to be sent. Raises Fault if it must not be sent, CommitSlow without `committed`.

        With `committed`, the call is sent after `committed(None)`, and refused and recorded after `committed(error)`.
        """
        queue, pending = self._queue, self._pending
        if self.write_error is not None or len(queue) + len(pending) >= self._capacity:
            stopped = self.stopped
            if stopped is not None or committed is None:
                raise stopped or CommitSlow()
        seq = self._seq = self._seq + 1
        queued = arguments if len(arguments) <= MAX_QUEUED_BYTES else self._arguments.large_or_digest(arguments)
        ticket = Ticket(seq, time_ns(), principal, target, trace, queued, perf_counter(), judged=judged)
        pending[seq] = ticket
        queue.append(ticket)
        self._issue(seq)
        if committed is not None:
            self.strict_calls.append((ticket, committed))
        if committed is not None or self._timer is None:
            self._schedule()
        return ticket

    def outcome(
        self, ticket: Ticket, outcome: Outcome, reason: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        """Record once how a call ended: in the entry of its intent, if that is still in the queue."""
        if not ticket.open:
            return
        seq, ticket.open = ticket.seq, False
        ticket.took_us = int((perf_counter() - ticket.began) * 1_000_000)
        if seq > self._last_taken:
            del self._pending[seq]
            ticket.outcome = outcome
            if reason or details:
                ticket.reason, ticket.details = reason, details or {}
        else:
            self._put(ticket.ending(self._next(), time_ns() // 1000, outcome, reason, details or {}))

    def refusal(
        self, principal: Principal, target: Target, trace: str, gate: str, rule: str, reason: str = "",
        arguments: bytes = b"", *, event: str = "", details: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """Record that a call was refused."""
        event = event or BLOCKED.get(target.kind, OTHER_BLOCKED)
        record = event_record(event, principal, target, trace, rule, reason, details=details)
        redactable = self._arguments.redactable(arguments)
        self.add(replace(record, gate=gate, arguments=digest(arguments), redacted_arguments=redactable))

    def add(self, record: Record) -> None:
        """Number and queue any other record. If the queue is full, it is counted, and the count is recorded later."""
        if self._used() >= self._limit:
            self._unrecorded += 1
            return
        if self._unrecorded:
            count, self._unrecorded = self._unrecorded, 0
            self._put(Record(self._next(), time_ns() // 1000, OVERFLOWED, details={"not_recorded": count}))
        self._put(replace(record, seq=self._next()))

    def show_arguments(self, shown: bool) -> None:
        """Whether entries hold redacted arguments, or only their hashes."""
        self._arguments.show(shown)

    async def commit(self, changes: Changes, records: Sequence[object]) -> list[Change]:
        """Commit changes and their records together. Raises StoreError if, as far as known, neither was committed."""
        if self.write_error is not None or self._used() + len(records) > self._limit:
            raise not_recorded(self.write_error)
        change = RecordedChange(changes, self._seq + 1)
        for record in records:
            assert isinstance(record, Record)
            seq = self._next()
            self._changes[seq] = change
            self._put(replace(record, seq=seq))
        try:
            await self.flushed()
        except StoreError as cause:
            raise not_recorded(cause) from None
        return change.outcome()

    @property
    def stopped(self) -> Fault | None:
        """The fault that an intent would raise now."""
        full = len(self._queue) + len(self._pending) >= self._space
        return cannot_record(self.write_error) if full or self.write_error is not None else None

    @property
    def last_seq(self) -> int:
        return self._seq

    @property
    def waiting(self) -> int:
        """Entries that are not committed yet."""
        return len(self._queue) + len(self._batch)

    @property
    def lag_s(self) -> float:
        """How long the oldest waiting entry has waited."""
        return self._times.waited_s(self._batch, self._queue)

    async def flushed(self) -> None:
        """Wait until all entries recorded so far are committed. Raises StoreError if the first attempt failed."""
        if self._queue or self._batch:
            waiter = self._loop.create_future()
            self._flush_waiters.append((self._seq, waiter))
            self._flush()
            await waiter

    async def close(self) -> None:
        """Commit all entries, and a last one that shows that none is missing."""
        self._put(Record(self._next(), time_ns() // 1000, CLOSED))
        try:
            await self.flushed()
        finally:
            self._cancel_timer()
            self._deadline.stop()
            await asyncio.to_thread(self._head.close)

    def _used(self) -> int:
        return len(self._queue) + len(self._batch) + len(self._pending) + len(self._open_intents)

    def _update_capacity(self) -> None:
        """Compute how many intents the queue accepts, with space for their outcomes; 0 while calls wait for commits."""
        self._space = self._limit - 1 - len(self._batch) - len(self._open_intents)
        self._capacity = 0 if self._deadline.late else self._space

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _put(self, record: Record) -> None:
        self._queue.append(record)
        self._times.add(record.seq)
        self._issue(record.seq)
        self._schedule()

    def _step(self, event: RecorderEvent) -> None:
        self._state = next_state(TRANSITIONS, self._state, event, "a recorder")

    def _schedule(self) -> None:
        """Schedule the next batch, unless one is at the database or has failed."""
        if self._state not in (RecorderState.IDLE, RecorderState.GATHERING):
            return
        if self.strict_calls or len(self._queue) >= FLUSH_AT:
            # In the next turn of the loop, so that all entries of this turn share the commit.
            self._step(RecorderEvent.HURRY)
            self._cancel_timer()
            self._timer = self._loop.call_soon(self._flush)
        elif self._state is RecorderState.IDLE:
            self._wait()

    def _wait(self) -> None:
        self._step(RecorderEvent.WAIT)
        self._timer = self._loop.call_later(WINDOW_S, self._flush)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        """Send the batch that failed, or else a new one."""
        if self._state in (RecorderState.WRITING, RecorderState.RETRYING):
            return
        self._cancel_timer()
        retry = self._state is RecorderState.FAILED
        if not retry and not self._take_batch():
            self._wait()
            return
        self._step(RecorderEvent.SEND)
        self._deadline.start(self.lag_s)
        # Fewer entries than `FLUSH_AT` come from few callers, each of which would wait for the whole batch.
        in_pieces = len(self._batch) < FLUSH_AT and not self.strict_calls and not self._flush_waiters
        try:
            write = partial(self._writer.write, self._batch, self._hash, self._changes, retry, in_pieces)
            self._store.write(write, self._on_written)
        except StoreError as error:
            self._on_failure(error)

    def _take_batch(self) -> bool:
        """Move entries from the queue into a batch, up to the first call that may still end soon."""
        queue, pending = self._queue, self._pending
        oldest = next(iter(pending.values()), None)
        end = min(len(queue), MAX_BATCH)
        while self._changes and end < len(queue) and queue[end].seq in self._changes:
            end += 1  # All records of a change are in one commit with it.
        if oldest is not None and not (self.strict_calls or self._flush_waiters):
            before = oldest.seq - queue[0].seq
            if before < end < MAX_BATCH and perf_counter() - oldest.began < HOLD_S:
                end = before
        if not end:
            return False
        self._batch, self._queue = queue[:end], queue[end:]
        self._times.take(self._batch)
        self._arguments.clear()
        self._last_taken = self._batch[-1].seq
        while oldest is not None and oldest.seq <= self._last_taken:
            self._open_intents[oldest.seq] = None
            del pending[oldest.seq]
            oldest = next(iter(pending.values()), None)
        self._update_capacity()
        return True

    def _on_written(self, result: Any, error: StoreError | None) -> None:
        if error is not None:
            self._on_failure(error)
            return
        self._step(RecorderEvent.COMMIT)
        self._deadline.stop()
        self.write_error, self._failures = None, 0
        batch, self._batch = self._batch, []
        self._hash, written = result
        last = batch[-1].seq
        if self._open_intents:
            for entry in written:
                if type(entry) is Record and entry.intent and entry.intent != entry.seq:
                    self._open_intents.pop(entry.intent, None)
        self._update_capacity()
        self._head.move(last, self._hash, next(iter(self._open_intents), last + 1))
        self._head.sync_soon()
        # Update the in-memory copies before any waiting caller continues.
        changes = (self._changes.pop(entry.seq) for entry in batch if entry.seq in self._changes)
        for change in dict.fromkeys(changes) if self._changes else ():
            if change.error is None:
                self._store.deliver(change.done)
        self._answer(last, None)
        self._publisher.on_committed(self.chain, written)
        if self._flush_waiters or self.strict_calls or len(self._queue) >= FLUSH_AT:
            self._flush()
        elif self._queue:
            self._schedule()

    def _on_failure(self, error: StoreError) -> None:
        """Keep the batch to send it again, and refuse everyone who waits for a commit."""
        error = explained(error, self.chain)
        self._step(RecorderEvent.FAIL)
        self._deadline.stop()
        self.write_error = error
        self._timer = self._loop.call_later(_RETRY_S[min(self._failures, len(_RETRY_S) - 1)], self._flush)
        self._failures += 1
        for change in self._changes.values():
            change.give_up()
        self._answer(self._seq, error)

    def _on_overdue(self, error: StoreError) -> None:
        """Refuse new calls until the database has committed the batch; the outcomes of earlier calls have space."""
        self.write_error = error

    def _answer(self, last: int, error: StoreError | None) -> None:
        """Answer everyone who waits for the commit of an entry up to `last`."""
        due = [(ticket, committed) for ticket, committed in self.strict_calls if ticket.seq <= last]
        self.strict_calls = self.strict_calls[len(due) :]
        for ticket, committed in due:
            if error is not None:
                self.outcome(ticket, NOT_SENT, error.message)
            committed(error)
        while self._flush_waiters and self._flush_waiters[0][0] <= last:
            _, waiter = self._flush_waiters.pop(0)
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
