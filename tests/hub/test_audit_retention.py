"""Retention deletes the oldest audit entries, and the rest stays verifiable, in the store and in an export."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.config.settings import RetentionSettings
from interlock.hub.audit import search
from interlock.hub.audit.chain import record_of
from interlock.hub.audit.head import ChainHead, read_head
from interlock.hub.audit.record import PRUNED, SUCCEEDED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.retention import MIN_KEPT, Pruner
from interlock.hub.audit.verify import VerificationReport, verify, verify_export
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store
from interlock.store import records as rows

CI = Principal("ci", "agent")
ECHO = Target("tool", "busy", "echo")


class RecordedChain:
    """A chain that is being recorded."""

    def __init__(self, store: Store, recorder: Recorder, head: Path) -> None:
        self.store = store
        self.recorder = recorder
        self.head = head
        self.pruner = Pruner(store, recorder, head)

    async def record(self, count: int) -> None:
        for _ in range(count):
            self.recorder.refusal(CI, ECHO, "", "access", "no")
            if _ % 500 == 0:
                await self.recorder.flushed()
        await self.recorder.flushed()

    async def first(self) -> int:
        found = await self.store.read(lambda database: rows.first(database, "node"))
        assert found is not None
        return found.seq

    def heads(self) -> dict[str, ChainHead]:
        found = read_head(self.head)
        assert found is not None
        return {"node": found}

    async def report(self) -> VerificationReport:
        return await self.store.read(lambda database: verify(database, self.heads()))

    async def exported(self) -> list[bytes]:
        return await self.store.read(lambda database: list(search.export(database)))

    async def execute(self, sql: str) -> None:
        await self.store.commit(lambda database: database.execute(sql))


@asynccontextmanager
async def kept(where: str, tmp_path: Path) -> AsyncIterator[RecordedChain]:
    store = await Store.open(where)
    head = tmp_path / "audit.head"
    recorder = await Recorder.open(store, "node", head)
    try:
        yield RecordedChain(store, recorder, head)
    finally:
        await recorder.close()
        await store.close()


async def test_what_is_too_much_goes_from_the_front_and_the_rest_verifies(where: str, tmp_path: Path) -> None:
    async with kept(where, tmp_path) as chain:
        await chain.record(5000)
        gone = await chain.pruner.prune(RetentionSettings(megabytes=1))
        assert 1000 < gone < 4900
        assert await chain.first() == gone + 1
        report = await chain.report()
        assert (report.sound, report.findings) == (True, ())
        lines = await chain.exported()
        assert verify_export(lines, chain.heads()).findings == ()
        assert await chain.pruner.prune(RetentionSettings(megabytes=1)) == 0, "nothing more is over"
        await chain.record(2000)
        assert await chain.pruner.prune(RetentionSettings(megabytes=1)) > 0
        assert (await chain.report()).findings == ()


async def test_what_is_too_old_goes_and_what_is_not_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with kept(str(tmp_path / "hub.db"), tmp_path) as chain:
        await chain.record(300)
        later = time.time_ns() + 10 * 86_400 * 1_000_000_000
        assert await chain.pruner.prune(RetentionSettings(days=30)) == 0
        for module in ("recorder", "entries", "retention"):
            monkeypatch.setattr(f"interlock.hub.audit.{module}.time_ns", lambda: later)
        await chain.record(300)
        gone = await chain.pruner.prune(RetentionSettings(days=5))
        assert gone == 301, "the 300 of long ago and the entry that opened the chain"
        assert (await chain.report()).findings == ()


async def test_the_newest_and_what_is_still_open_are_never_cut(tmp_path: Path) -> None:
    async with kept(str(tmp_path / "hub.db"), tmp_path) as chain:
        await chain.record(5)
        ticket = chain.recorder.intent(CI, ECHO, "")
        await chain.record(5000)
        assert await chain.pruner.prune(RetentionSettings(days=0.000_000_1)) == ticket.seq - 1
        assert await chain.first() == ticket.seq
        chain.recorder.outcome(ticket, SUCCEEDED)
        await chain.record(1)
        await chain.pruner.prune(RetentionSettings(days=0.000_000_1))
        last = await chain.store.read(lambda database: rows.last(database, "node"))
        assert last is not None
        assert last.seq - await chain.first() >= MIN_KEPT - 1


async def test_a_cut_that_was_killed_half_way_is_finished_and_verifies_all_the_while(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kept(where, tmp_path) as chain:
        await chain.record(5000)
        with monkeypatch.context() as killed:
            killed.setattr(rows, "drop_page", lambda *_: 0)  # as if it were killed before the first
            gone = await chain.pruner.prune(RetentionSettings(megabytes=1))
        assert await chain.first() == 1, "the cut is recorded, and nothing is gone yet"
        assert (await chain.report()).findings == ()
        await chain.execute("DELETE FROM records WHERE seq <= 700")
        assert (await chain.report()).findings == ()
    async with kept(where, tmp_path) as chain:
        await chain.pruner.prune(RetentionSettings(megabytes=1))
        assert await chain.first() > gone
        assert (await chain.report()).findings == ()


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM records WHERE seq <= (SELECT min(seq) FROM records)", "missing"),
        (
            "UPDATE records SET body = replace(body, '\"ci\"', '\"xx\"') WHERE seq = (SELECT min(seq) FROM records)",
            "altered",
        ),
        (
            "UPDATE records SET body = replace(body, '\"through\":', '\"through\":1') WHERE event LIKE '%pruned'",
            "altered",
        ),
        ("DELETE FROM records WHERE event LIKE '%pruned'", "missing"),
    ],
)
async def test_t34_cutting_more_than_was_recorded_or_touching_what_is_left_shows(
    tmp_path: Path, sql: str, problem: str
) -> None:
    async with kept(str(tmp_path / "hub.db"), tmp_path) as chain:
        await chain.record(5000)
        await chain.pruner.prune(RetentionSettings(megabytes=1))
        await chain.record(3)
        await chain.execute(sql)
        report = await chain.report()
        assert not report.sound
        assert problem in {finding.problem for finding in report.findings}


async def test_the_cut_says_what_went_and_by_which_rule(tmp_path: Path) -> None:
    async with kept(str(tmp_path / "hub.db"), tmp_path) as chain:
        await chain.record(5000)
        gone = await chain.pruner.prune(RetentionSettings(megabytes=1))
        last = await chain.store.read(lambda database: rows.last(database, "node"))
        assert last is not None
        record = record_of(last.body)
        assert (record.event, record.rule) == (PRUNED, "retention: megabytes = 1")
        assert (record.details["from"], record.details["through"]) == (1, gone)


async def test_without_settings_nothing_goes(tmp_path: Path) -> None:
    async with kept(str(tmp_path / "hub.db"), tmp_path) as chain:
        await chain.record(500)
        assert await chain.pruner.prune(RetentionSettings()) == 0
        assert await chain.first() == 1
