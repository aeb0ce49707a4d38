"""Recording: what is acknowledged is there, what cannot be recorded is not let through, what was lost is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from interlock.events import Bus, EventFilter
from interlock.events.types import AuditAppended, AuditCommitted
from interlock.hub.audit import entries, write_failures
from interlock.hub.audit.batch_writer import PIECE_ENTRIES
from interlock.hub.audit.commit_publisher import ENTRIES_AT_ONCE, CommitPublisher
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.entries import Entry, Ticket, event_record
from interlock.hub.audit.head import ChainHead, HeadFile, read_head
from interlock.hub.audit.record import (
    CLOSED,
    GAP,
    INTENDED,
    OPENED,
    OVERFLOWED,
    SUCCEEDED,
    TOOL_FAILED,
    UNKNOWN,
    Record,
)
from interlock.hub.audit.recorder import FLUSH_AT, OnCommitted, Recorder
from interlock.hub.audit.search import FoundEntry, export, search, show, tail
from interlock.hub.audit.verify import VerificationReport, verify, verify_export
from interlock.hub.audit.write_failures import CommitDeadline
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store, StoreError, StoreFull
from interlock.store import records as rows
from interlock.store.connect import connect
from interlock.store.database import Database, Row
from interlock.store.records import Search
from interlock.store.writer import Done, Work
from interlock.wire.errors import Fault
from interlock.wire.transitions import ImpossibleTransition
from waiting import until

from .committed import CommittedRecords

pytestmark = pytest.mark.anyio

AGENT = Principal("cursor", "agent")
TOOL = Target("tool", "github", "create_issue")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class RunningHub:
    """A store with a recorder on it, and what a reader of them sees."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where = where
        self.head = folder / "audit.head"

    async def open(self, **options: Any) -> Recorder:
        self.store = await Store.open(self.where)
        self.recorder = await Recorder.open(self.store, "node-1", self.head, **options)
        return self.recorder

    async def close(self) -> None:
        await self.recorder.close()
        await self.store.close()

    async def crash(self) -> None:
        """End as a kill would: nothing more is written, nothing is said."""
        self.cut()
        await self.store.close()

    def cut(self) -> None:
        """Let no further entry reach the database."""
        self.store.write = lambda work, done: None  # type: ignore[method-assign]

    def report(self) -> VerificationReport:
        database = connect(self.where, read_only=True)
        head = read_head(self.head)
        try:
            return verify(database, {} if head is None else {"node-1": head})
        finally:
            database.close()

    def records(self) -> list[Record]:
        database = connect(self.where, read_only=True)
        try:
            return [entry.record for entry in tail(database, 1000)]
        finally:
            database.close()


@pytest.fixture
def running_hub(where: str, tmp_path: Path) -> RunningHub:
    return RunningHub(where, tmp_path)


async def strict(recorder: Recorder) -> tuple[Ticket, StoreError | None]:
    heard: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    ticket = recorder.intent(AGENT, TOOL, TRACE, b'{"a":1}', committed=heard.set_result)
    return ticket, await heard


async def test_a_call_is_recorded_as_intended_and_as_ended(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    ticket = recorder.intent(AGENT, TOOL, TRACE, b'{"title":"x"}')
    await recorder.flushed()
    recorder.outcome(ticket, TOOL_FAILED, "no such repository")
    recorder.outcome(ticket, SUCCEEDED)
    await running_hub.close()
    opened, intent, outcome, closed = running_hub.records()
    assert (opened.event, closed.event) == (OPENED, CLOSED)
    assert (intent.event, intent.result) == (INTENDED, "PENDING")
    assert (outcome.event, outcome.result, outcome.intent) == ("TOOL_EXECUTED", "FAILURE", intent.seq)
    assert (outcome.actor, outcome.server, outcome.name, outcome.trace) == ("cursor", "github", "create_issue", TRACE)
    assert outcome.arguments == intent.arguments != ""
    assert outcome.reason == "no such repository"
    assert outcome.duration_us is not None
    assert running_hub.report().sound


async def test_a_call_that_ends_before_its_intent_left_is_one_entry(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    first = recorder.intent(AGENT, TOOL, TRACE)
    second = recorder.intent(AGENT, TOOL, TRACE)
    recorder.outcome(first, SUCCEEDED, details={"bytes": 3})
    await recorder.flushed()
    recorder.outcome(second, SUCCEEDED)
    await running_hub.close()
    _, whole, intent, outcome, _ = running_hub.records()
    assert (whole.event, whole.intent, whole.result) == ("TOOL_EXECUTED", whole.seq, "SUCCESS")
    assert whole.details == {"bytes": 3}
    assert (intent.event, outcome.intent) == (INTENDED, intent.seq)
    assert running_hub.report().sound


async def test_a_refusal_and_an_event_are_recorded_with_gate_rule_and_reason(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    recorder.refusal(AGENT, TOOL, TRACE, "access", "deny github__*", "not granted", b"{}")
    recorder.refusal(AGENT, TOOL, TRACE, "validators", "shell.rm", event="VALIDATION_FAILED")
    recorder.refusal(AGENT, Target("prompt", "s", "p"), TRACE, "access", "r")
    recorder.add(event_record("ACCESS_GRANTED", Principal("ada", "person"), TOOL, details={"justification": "on call"}))
    recorder.add(event_record("com.example.seen", claimed_by="github"))
    with pytest.raises(ValueError, match="event type"):
        recorder.add(event_record("NONSENSE"))
    await running_hub.close()
    found = [
        (record.event, record.result, record.gate, record.rule, record.actor) for record in running_hub.records()[1:-1]
    ]
    assert found == [
        ("TOOL_BLOCKED", "BLOCKED", "access", "deny github__*", "cursor"),
        ("VALIDATION_FAILED", "BLOCKED", "validators", "shell.rm", "cursor"),
        ("dev.interlock.call_blocked", "BLOCKED", "access", "r", "cursor"),
        ("ACCESS_GRANTED", "RECORDED", "", "", "ada"),
        ("com.example.seen", "RECORDED", "", "", ""),
    ]


async def test_a_strict_intent_is_in_the_database_when_that_is_said(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    ticket, error = await strict(recorder)
    assert error is None
    assert running_hub.records()[-1].seq == ticket.seq
    together = await asyncio.gather(*(strict(recorder) for _ in range(300)))
    assert {error for _, error in together} == {None}
    assert len(running_hub.records()) == 302
    await running_hub.close()


async def test_a_step_that_the_table_has_no_place_for_is_named(
    running_hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await running_hub.open()
    write, answered = running_hub.store.write, list[tuple[Done, object]]()

    def noted(work: Work, done: Done) -> None:
        def answer(result: object, error: StoreError | None) -> None:
            answered.append((done, result))
            done(result, error)

        write(work, answer)

    monkeypatch.setattr(running_hub.store, "write", noted)
    recorder.add(event_record("dev.interlock.tested"))
    await recorder.flushed()
    ((done, result),) = answered
    with pytest.raises(ImpossibleTransition, match="commit cannot happen to a recorder that is idle"):
        done(result, None)
    await running_hub.close()


async def test_a_clock_that_jumps_makes_no_entry_older(
    running_hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await running_hub.open()
    an_hour_on = time_ns() + 3_600_000_000_000
    for entry in ("intent", "event"):
        if entry == "intent":
            recorder.outcome(recorder.intent(AGENT, TOOL, TRACE), SUCCEEDED)
        else:
            recorder.add(event_record("dev.interlock.tested"))
        with monkeypatch.context() as clock:
            clock.setattr(entries, "time_ns", lambda: an_hour_on)
            assert 0 < recorder.lag_s < 1_800
            flushed = asyncio.ensure_future(recorder.flushed())
            await asyncio.sleep(0)  # the batch leaves for the database
            assert 0 < recorder.lag_s < 1_800
            await flushed
        assert recorder.lag_s == 0
    await running_hub.close()


async def test_the_lag_is_that_of_the_oldest_entry_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(entries, "perf_counter", lambda: now)
    times = entries.EntryTimes()
    queue: list[Record | Ticket] = [
        Record(1, 0, OPENED),
        Ticket(2, 0, AGENT, TOOL, TRACE, b"", 2.0),
        Record(3, 0, OPENED),
    ]
    for now in (1.0, 3.0):
        times.add(int(now))
    now = 10.0
    lags = []
    while queue:
        lags.append(times.waited_s([], queue))
        batch = [queue.pop(0)]
        times.take(batch)
        assert times.waited_s(batch, queue) == lags[-1]
    assert lags == [9.0, 8.0, 7.0]
    assert times.waited_s([], []) == 0.0


async def test_a_database_has_its_time_to_commit_however_long_an_entry_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, looks = 1_000.0, 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return now

    monkeypatch.setattr(write_failures, "monotonic", clock)
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 0.01)
    late, overdue = asyncio.Event(), asyncio.Event()
    deadline = CommitDeadline(late.set, lambda error: overdue.set())
    deadline.start(waited_s=3_600.0)
    await late.wait()
    looked = looks
    await until(lambda: overdue.is_set() or looks > looked + 10)
    assert not overdue.is_set(), "the database has had no time so far"
    now += 0.01
    await overdue.wait()
    deadline.stop()


async def test_nothing_is_committed_on_the_loop_and_entries_share_commits(running_hub: RunningHub) -> None:
    bus = Bus()
    recorder = await running_hub.open(publisher=CommitPublisher(bus))
    commits = bus.subscribe(EventFilter.of(AuditCommitted))
    for _ in range(100):
        recorder.intent(AGENT, TOOL, TRACE)
    assert running_hub.records()[-1].event == OPENED
    await recorder.flushed()
    (commit,) = commits.take()
    assert isinstance(commit, AuditCommitted)
    assert (commit.source, commit.sequence - commit.first + 1) == ("node-1", 100)
    commits.close()
    await running_hub.close()
    assert not bus.wanted


async def test_the_loop_runs_between_the_pieces_in_which_a_batch_is_counted_and_published() -> None:
    bus, counts, half = Bus(), Counts(), 10 * ENTRIES_AT_ONCE
    publisher, counted = CommitPublisher(bus, counts), [0]
    batch: list[Entry] = [Record(seq, 0, "ACCESS_GRANTED") for seq in range(1, 2 * half + 1)]
    with bus.subscribe(EventFilter.of(AuditAppended), limit=len(batch)) as appended:
        publisher.on_committed("node-1", batch[:half])
        while counted[-1] < half // 2:
            counted.append(counts.entries)
            await asyncio.sleep(0)
        publisher.on_committed("node-1", batch[half:])  # while pieces of the first batch wait
        while counted[-1] < len(batch):
            counted.append(counts.entries)
            await asyncio.sleep(0)
        published = [event.sequence for events in iter(appended.take, []) for event in events]
        assert published == [entry.seq for entry in batch], "in order"
    assert max(later - before for before, later in pairwise(counted)) == ENTRIES_AT_ONCE


async def test_the_loop_runs_between_the_pieces_of_a_batch_that_nobody_waits_for(
    running_hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(database: Database, values: Sequence[Row]) -> None:
        sizes.append(len(values))
        append_values(database, values)

    append_values = rows.append_values
    monkeypatch.setattr(rows, "append_values", counted)
    recorder = await running_hub.open()

    async def sent(count: int, committed: OnCommitted | None = None) -> list[int]:
        """How many entries each statement had that wrote this many calls."""
        await recorder.flushed()
        sizes.clear()
        for _ in range(count):
            recorder.outcome(recorder.intent(AGENT, TOOL, TRACE, committed=committed), SUCCEEDED)
        await until(lambda: not recorder.waiting)
        return sizes[:]

    assert max(await sent(FLUSH_AT - 1)) <= PIECE_ENTRIES
    assert await sent(FLUSH_AT) == [FLUSH_AT]
    assert await sent(FLUSH_AT - 1, committed=lambda error: None) == [FLUSH_AT - 1]
    await running_hub.close()


async def test_waiting_for_what_was_recorded_so_far_ends_though_more_keeps_coming(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    stop = False

    async def keep_coming() -> None:
        while not stop:
            for _ in range(50):
                recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
            await asyncio.sleep(0)

    coming = asyncio.create_task(keep_coming())
    await asyncio.sleep(0)
    before = recorder.last_seq
    async with asyncio.timeout(120):
        await recorder.flushed()
    assert running_hub.records()[-1].seq >= before
    stop = True
    await coming
    await running_hub.close()
    assert running_hub.report().sound


async def test_when_full_new_calls_are_refused_and_those_under_way_are_still_recorded(running_hub: RunningHub) -> None:
    recorder = await running_hub.open(limit=10)
    tickets = [recorder.intent(AGENT, TOOL, TRACE) for _ in range(5)]
    with pytest.raises(Fault) as caught:
        recorder.intent(AGENT, TOOL, TRACE)
    assert (caught.value.name, caught.value.retry_after_ms) == ("RESOURCE_EXHAUSTED", 100)
    for _ in range(3):
        recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await recorder.flushed()
    for ticket in tickets:
        recorder.outcome(ticket, SUCCEEDED)
    await recorder.flushed()
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await running_hub.close()
    events = [record.event for record in running_hub.records()]
    assert events.count("TOOL_EXECUTED") == 5
    assert [record.details for record in running_hub.records() if record.event == OVERFLOWED] == [{"not_recorded": 3}]
    assert running_hub.report().sound


async def test_while_nothing_can_be_written_no_call_is_let_through_and_nothing_is_lost(
    running_hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await running_hub.open()
    running = recorder.intent(AGENT, TOOL, TRACE)
    await recorder.flushed()

    def full(database: Database, values: object) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(rows, "append_values", full)
        ticket, error = await strict(recorder)
        assert isinstance(error, StoreFull)
        with pytest.raises(Fault, match="the disk is full"):
            recorder.intent(AGENT, TOOL, TRACE)
        recorder.outcome(running, SUCCEEDED)
        with pytest.raises(StoreFull):
            await recorder.flushed()
    await until(lambda: recorder.write_error is None)
    recorder.outcome(recorder.intent(AGENT, TOOL, TRACE), SUCCEEDED)
    await running_hub.close()
    ends = {record.intent: record.outcome for record in running_hub.records() if record.outcome is not None}
    assert ends[running.seq] == SUCCEEDED
    not_sent = ends[ticket.seq]
    assert not_sent is not None
    assert not_sent.transport == "not_sent"
    assert running_hub.report().sound


async def test_a_batch_whose_commit_was_not_confirmed_is_not_written_twice(
    running_hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await running_hub.open()
    recorder.intent(AGENT, TOOL, TRACE)
    write = running_hub.store.write

    def write_without_answer(work: Callable[[Database], Any], done: Callable[[Any, StoreError | None], None]) -> None:
        write(work, lambda result, error: done(None, StoreFull("the connection broke")))

    with monkeypatch.context() as broken:
        broken.setattr(running_hub.store, "write", write_without_answer)
        with pytest.raises(StoreFull):
            await recorder.flushed()
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await recorder.flushed()
    assert recorder.write_error is None
    await running_hub.close()
    assert [record.event for record in running_hub.records()] == [OPENED, INTENDED, "TOOL_BLOCKED", CLOSED]
    assert running_hub.report().sound


async def test_a_second_hub_on_the_same_chain_is_stopped(running_hub: RunningHub, tmp_path: Path) -> None:
    first = await running_hub.open()
    store = await Store.open(running_hub.where)
    second = await Recorder.open(store, "node-1", tmp_path / "other.head")
    first.intent(AGENT, TOOL, TRACE)
    with pytest.raises(StoreError, match="another hub"):
        await first.flushed()
    with pytest.raises(Fault, match="another hub"):
        first.intent(AGENT, TOOL, TRACE)
    await second.close()
    await store.close()
    await running_hub.crash()


async def test_two_nodes_keep_two_chains_in_one_database(where: str, tmp_path: Path) -> None:
    store = await Store.open(where)
    one = await Recorder.open(store, "one", tmp_path / "one.head")
    two = await Recorder.open(store, "two", tmp_path / "two.head")
    for recorder in (one, two, one):
        recorder.refusal(AGENT, TOOL, TRACE, "g", recorder.chain)
        await recorder.flushed()
    await one.close()
    await two.close()
    heads = {head.chain: head for head in (read_head(tmp_path / "one.head"), read_head(tmp_path / "two.head")) if head}
    report = await store.read(lambda database: verify(database, heads))
    assert (report.sound, report.chains, report.records) == (True, ("one", "two"), 7)
    found = await store.read(lambda database: search(database, Search(event="TOOL_BLOCKED"), 10))
    assert [entry.chain for entry in found] == ["one", "two", "one"]
    await store.close()


async def test_what_was_lost_is_counted_and_recorded_and_an_open_call_ends_as_unknown(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    ended = recorder.intent(AGENT, TOOL, TRACE)
    ticket = recorder.intent(AGENT, TOOL, TRACE)
    await recorder.flushed()
    recorder.outcome(ended, SUCCEEDED)
    await recorder.flushed()
    for _ in range(7):
        recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await running_hub.crash()
    recorder = await running_hub.open()
    assert (recorder.resumed.lost, recorder.resumed.cut, recorder.resumed.unfinished) == (7, 0, 1)
    await running_hub.close()
    gap, opened, unknown = running_hub.records()[4:7]
    assert (gap.event, gap.details) == (GAP, {"from": 5, "to": 11, "lost": 7})
    assert (opened.event, opened.details) == (OPENED, {"clean": False})
    assert (unknown.intent, unknown.outcome) == (ticket.seq, UNKNOWN)
    report = running_hub.report()
    assert report.sound
    [finding] = report.findings
    assert finding.problem == "lost"
    assert finding.message.startswith("7 entries of the last second before the hub was killed")
    assert "no sign of tampering" in finding.message


async def test_an_intent_whose_outcome_was_lost_ends_as_unknown(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    ticket, _ = await strict(recorder)
    # While something else is being written the call ends; its end waits for the next batch, which never goes.
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    flushed = asyncio.ensure_future(recorder.flushed())
    await asyncio.sleep(0)
    recorder.outcome(ticket, SUCCEEDED)
    running_hub.cut()
    await flushed
    await running_hub.crash()
    await running_hub.open()
    (ended,) = [record for record in running_hub.records() if record.intent == ticket.seq]
    assert ended.outcome == UNKNOWN
    await running_hub.close()


async def test_a_clean_end_leaves_nothing_to_say(running_hub: RunningHub) -> None:
    await running_hub.open()
    await running_hub.close()
    recorder = await running_hub.open()
    assert (recorder.resumed.lost, recorder.resumed.cut, recorder.resumed.unfinished) == (0, 0, 0)
    await running_hub.close()
    assert [record.event for record in running_hub.records()] == [OPENED, CLOSED, OPENED, CLOSED]
    assert [record.details.get("clean") for record in running_hub.records()] == [True, None, True, None]


async def test_a_tail_that_was_cut_is_found_before_and_after_the_next_start(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    for _ in range(5):
        recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await running_hub.close()
    database = connect(running_hub.where)
    database.execute("DELETE FROM records WHERE seq > 3")
    database.close()
    before = running_hub.report()
    assert [(finding.seq, finding.problem) for finding in before.findings] == [(4, "cut")]
    recorder = await running_hub.open()
    assert recorder.resumed.cut == 4
    await running_hub.close()
    after = running_hub.report()
    assert not after.sound
    assert [(finding.seq, finding.problem) for finding in after.findings] == [(4, "cut")]


@pytest.mark.parametrize("harm", ["missing", "rubbish", "another"])
async def test_a_head_that_is_gone_or_damaged_is_recorded(running_hub: RunningHub, tmp_path: Path, harm: str) -> None:
    recorder = await running_hub.open()
    recorder.intent(AGENT, TOOL, TRACE)
    await running_hub.close()
    if harm == "missing":
        running_hub.head.unlink()
    elif harm == "rubbish":
        running_hub.head.write_bytes(b"rubbish")
    else:
        HeadFile(running_hub.head, ChainHead("other", 1, b"h" * 32, 1, 1)).close()
    recorder = await running_hub.open()
    assert recorder.resumed.unfinished == 1
    await running_hub.close()
    assert [record.event for record in running_hub.records()].count(GAP) == 1
    assert {finding.problem for finding in running_hub.report().findings} == {"head"}


async def test_secrets_reach_neither_the_database_nor_whoever_is_forwarded_to(running_hub: RunningHub) -> None:
    """T23."""
    bus = Bus()
    recorder = await running_hub.open(
        redact=lambda text: text.replace("hunter2", "[secret]"), publisher=CommitPublisher(bus)
    )
    forwarded = CommittedRecords(bus)
    details = {"headers": {"Authorization": "Bearer hunter3"}, "note": "it is hunter2", "list": [{"apiKey": "hunter4"}]}
    ticket = recorder.intent(AGENT, Target("resource", "s", "https://u:hunter2@h/"), TRACE, b"hunter5")
    recorder.outcome(ticket, TOOL_FAILED, "wrong password hunter2", details)
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r", "hunter2", b"hunter5", details=details)
    recorder.add(event_record("com.example.x", details=details))
    await running_hub.close()
    assert "hunter" not in str(running_hub.records()) + str(forwarded.all())
    assert len(forwarded) >= 4
    if not running_hub.where.startswith("postgresql"):
        assert not [path for path in Path(running_hub.where).parent.iterdir() if b"hunter" in path.read_bytes()]


async def test_what_cannot_be_encoded_is_recorded_without_it(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    recorder.refusal(AGENT, Target("tool", "s \ud800", "bad"), TRACE, "g", "r", details={"n": 2**200})
    recorder.refusal(AGENT, Target("tool", "nul \0", "n" * 10_000), TRACE, "g", "r")
    await running_hub.close()
    _, first, second, _ = running_hub.records()
    assert "not_recorded" in first.details
    assert (second.server, len(second.name)) == ("nul \0", 10_000)
    assert running_hub.report().sound


async def test_the_record_is_searched_shown_and_exported(running_hub: RunningHub) -> None:
    recorder = await running_hub.open()
    for number in range(30):
        who = Principal("cursor" if number % 2 else "claude", "agent")
        what = Target("tool", "github", f"tool-{number % 3}")
        recorder.refusal(who, what, f"{number % 5 + 1:032x}", "g", str(number))
    await recorder.flushed()

    async def rules(wanted: Search, most: int = 100, before: tuple[str, int] | None = None) -> list[str]:
        found = await running_hub.store.read(lambda database: search(database, wanted, most, before))
        return [entry.record.rule for entry in found]

    assert await rules(Search(actor="cursor", name="tool-0")) == [str(n) for n in (27, 21, 15, 9, 3)]
    assert await rules(Search(trace="00000000-0000-0000-0000-000000000003")) == [str(n) for n in range(27, -1, -5)]
    assert await rules(Search(result="SUCCESS")) == []
    newest = await running_hub.store.read(lambda database: search(database, Search(event="TOOL_BLOCKED"), 4))
    assert await rules(Search(event="TOOL_BLOCKED"), 3, (newest[-1].chain, newest[-1].seq)) == ["25", "24", "23"]
    at = newest[1].record.at
    assert "28" in await rules(Search(since=at))
    assert "28" not in await rules(Search(until=at))
    shown = await running_hub.store.read(lambda database: show(database, "node-1", newest[0].seq))
    assert shown is not None
    assert [entry.record.rule for entry in shown[1]] == [str(n) for n in range(4, 30, 5)]
    assert await running_hub.store.read(lambda database: show(database, "node-1", 10_000)) is None
    lines = await running_hub.store.read(lambda database: list(export(database)))
    assert verify_export(lines, {}) == VerificationReport(31, ("node-1",), ())
    assert not verify_export(lines[:5] + lines[6:], {}).sound
    assert not verify_export([*lines[:-1], lines[-1].replace(b'"29"', b'"28"')], {}).sound
    last: list[FoundEntry] = await running_hub.store.read(lambda database: tail(database, 2))
    assert [entry.record.rule for entry in last] == ["28", "29"]
    await running_hub.close()


async def test_a_restored_backup_keeps_the_chain_and_adds_what_is_missing(
    running_hub: RunningHub, tmp_path: Path
) -> None:
    recorder = await running_hub.open()
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await recorder.flushed()
    await running_hub.store.backup(tmp_path / "backup.db")
    recorder.refusal(AGENT, TOOL, TRACE, "g", "r")
    await recorder.flushed()
    await running_hub.store.restore(tmp_path / "backup.db")
    await running_hub.close()
    assert running_hub.report().sound
    assert running_hub.report().records == 4
    elsewhere = await Store.open(tmp_path / "elsewhere.db")
    await elsewhere.restore(tmp_path / "backup.db")
    assert (await elsewhere.read(lambda database: verify(database, {}))).records == 2
    stranger = await Recorder.open(elsewhere, "node-2", tmp_path / "node-2.head")
    await stranger.close()
    other = await Store.open(tmp_path / "other.db")
    await (await Recorder.open(other, "node-1", tmp_path / "third.head")).close()
    with pytest.raises(StoreError, match="different history"):
        await other.restore(tmp_path / "backup.db")
    await other.close()
    await elsewhere.close()
