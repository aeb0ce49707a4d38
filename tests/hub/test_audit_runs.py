"""The chain stays sound and every entry accounted for, over any order of records, flushes, crashes and restarts."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.hub.audit.chain import record_of
from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.head import read_head
from interlock.hub.audit.record import GAP, INTENDED, SUCCEEDED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.verify import verify
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store, records
from interlock.store.connect import connect

AGENT = Principal("cursor", "agent")
TOOL = Target("tool", "github", "create_issue")
STEPS = st.lists(st.sampled_from(["intent", "intent", "outcome", "refusal", "flush", "close", "crash"]), max_size=25)


class Run:
    """A recorder that is begun and ended as the steps say, and what must be true of its record afterwards."""

    def __init__(self, folder: Path) -> None:
        self.where, self.head = folder / "hub.db", folder / "audit.head"
        self.issued = 0
        self.safe = 0
        """Up to here everything was acknowledged."""
        self.open: list[Ticket] = []

    async def begin(self) -> None:
        self.store = await Store.open(self.where)
        self.recorder = await Recorder.open(self.store, "node", self.head)
        self.open = []
        self.safe = self.recorder.last_seq

    async def take(self, step: str) -> None:
        if step == "intent":
            self.open.append(self.recorder.intent(AGENT, TOOL, ""))
        elif step == "outcome" and self.open:
            self.recorder.outcome(self.open.pop(0), SUCCEEDED)
        elif step == "refusal":
            self.recorder.refusal(AGENT, TOOL, "", "g", "r")
        elif step == "flush":
            await self.recorder.flushed()
            self.safe = self.recorder.last_seq
        elif step == "close":
            await self.recorder.close()
            await self.store.close()
            await self.begin()
            assert self.recorder.resumed.lost == 0
        elif step == "crash":
            await self.crash()
            issued, safe = self.recorder.last_seq, self.safe
            await self.begin()
            assert self.recorder.resumed.lost <= issued - safe
            assert self.recorder.resumed.cut == 0

    async def crash(self) -> None:
        """End as a kill would: no further entry reaches the database."""
        self.store.write = lambda work, done: None  # type: ignore[method-assign]
        await self.store.close()

    def check(self) -> None:
        database = connect(str(self.where), read_only=True)
        head = read_head(self.head)
        assert head is not None
        report = verify(database, {"node": head})
        assert report.sound, report.findings
        found = [record_of(row.body) for row in records.in_order(database, "node")]
        database.close()
        present = [record.seq for record in found]
        told = [
            seq for record in found if record.event == GAP
            for seq in range(int(str(record.details["from"])), int(str(record.details["to"])) + 1)
        ]  # fmt: skip
        assert sorted(present + told) == list(range(1, max(present) + 1))
        intents = {record.seq for record in found if record.event == INTENDED}
        ends = [record.intent for record in found if record.intent and record.intent != record.seq]
        assert len(ends) == len(set(ends))
        assert set(ends) <= intents
        assert intents <= set(ends), "nothing was under way when it ended, or it ended as unknown"


@pytest.mark.slow
@settings(max_examples=example_count(20, 40), deadline=None)
@given(STEPS)
def test_every_place_in_the_chain_is_filled_or_declared_lost_and_every_intent_ends_once(steps: list[str]) -> None:
    async def go(run: Run) -> None:
        await run.begin()
        for step in steps:
            await run.take(step)
        for ticket in run.open:
            run.recorder.outcome(ticket, SUCCEEDED)
        await run.recorder.close()
        await run.store.close()

    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        asyncio.run(go(run))
        run.check()
