"""The hub commits a change together with its audit record: after any crash the store has both or neither."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import forking
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.permission_entries import ENTRIES
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit import recorder as recorder_module
from interlock.hub.audit.chain import record_of
from interlock.hub.audit.entries import event_record
from interlock.hub.audit.heads import heads_of
from interlock.hub.audit.record import NOT_DONE, OPENED, Record
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.verify import verify
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Principal
from interlock.store import Collection, Conflict, Mirror, NotRecorded, Store, StoreError, StoreFull, StoreUnavailable
from interlock.store import records as rows
from interlock.store.connect import connect
from interlock.store.database import Database, Row
from interlock.store.documents import find
from store.things import THINGS, Thing
from waiting import until

HERE = Path(__file__).parent
ADA = Principal("person:ada", "person")
EVENT = "com.example.changed"


def there(database: Database, collection: Collection[object]) -> list[object]:  # type: ignore[type-var]
    return [found.value for found in find(database, collection, {})]


def state(database: Database) -> object:
    (decision,) = find(database, DECISIONS, {})
    return decision.value.state


DEEDS = {
    "grant": ("ACCESS_GRANTED", lambda db: len(there(db, GRANTS)) == 1),
    "revoke": ("ACCESS_REVOKED", lambda db: not there(db, GRANTS)),
    "create_key": ("dev.interlock.key_created", lambda db: len(there(db, KEYS)) == 1),
    "rotate_key": ("dev.interlock.key_rotated", lambda db: len(there(db, KEYS)) == 1),
    "revoke_key": ("dev.interlock.key_revoked", lambda db: not there(db, KEYS)),
    "approve": ("PERMISSION_GRANTED", lambda db: there(db, ENTRIES)[0].grant == "approved"),
    "revoke_permission": ("PERMISSION_REVOKED", lambda db: there(db, ENTRIES)[0].grant == "denied"),
    "ask": ("dev.interlock.decision_opened", lambda db: state(db) is DecisionState.OPEN),
    "answer": (
        "dev.interlock.rule_made",
        lambda db: state(db) is DecisionState.APPROVED and len(there(db, RULES)) == 1,
    ),
    "use": ("dev.interlock.decision_used", lambda db: state(db) is DecisionState.USED),
    "make_rule": ("dev.interlock.rule_made", lambda db: len(there(db, RULES)) == 1),
    "revoke_rule": ("dev.interlock.rule_revoked", lambda db: not there(db, RULES)),
}
"""By what is changed: its record, and how the change shows."""


@pytest.mark.slow
@pytest.mark.parametrize("what", DEEDS)
def test_killed_at_the_commit_of_a_change_its_record_is_there_with_it(where: str, tmp_path: Path, what: str) -> None:
    event, shows = DEEDS[what]
    command = forking.command("-m", "hub.changing", where, str(tmp_path / "home"), what)
    env = {"PYTHONPATH": os.pathsep.join((str(HERE.parents[1] / "src"), str(HERE.parent)))}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -9, ended.stderr
    database = connect(where, read_only=True)
    try:
        assert shows(database), "the change was committed"
        told = [record for record in records(database) if record.event == event]
        assert [record.actor for record in told] in (["person:ada"], ["careful"]), "and so was its record"
        assert verify(database, heads_of(tmp_path / "home")).sound
    finally:
        database.close()


def records(database: Database) -> list[Record]:
    return [record_of(row.body) for chain in rows.chains(database) for row in rows.in_order(database, chain)]


class RecordedStore:
    """A store with a recorder on it, and one collection in memory."""

    def __init__(self, where: str, store: Store, recorder: Recorder, things: Mirror[Thing], head: Path) -> None:
        self.where = where
        self.store = store
        self.recorder = recorder
        self.things = things
        self.head = head

    async def put(self, id: str, *, new: bool = False) -> None:
        async with self.store.transaction() as change:
            (change.insert if new else change.put)(THINGS, Thing(id))
            change.record(event_record(EVENT, ADA, reason=id))

    async def well(self) -> None:
        """Wait until records can be written again, and all are."""
        await until(lambda: self.recorder.write_error is None)
        await self.recorder.flushed()

    def recorded(self) -> list[tuple[str, str]]:
        database = connect(self.where, read_only=True)
        try:
            return [(record.event, record.reason) for record in records(database) if record.event != OPENED]
        finally:
            database.close()


@pytest.fixture
async def kept(where: str, tmp_path: Path) -> AsyncIterator[RecordedStore]:
    store = await Store.open(where, (THINGS,), backups=tmp_path)
    recorder = await Recorder.open(store, "node", tmp_path / "heads" / "node.head")
    yield RecordedStore(where, store, recorder, await store.mirror(THINGS), tmp_path)
    await recorder.close()
    await store.close()


async def test_a_change_is_in_memory_and_in_the_record_when_that_is_said(kept: RecordedStore) -> None:
    await kept.put("a")
    assert kept.things.get("a") == Thing("a")
    assert kept.recorded() == [(EVENT, "a")]


async def test_a_change_that_comes_too_late_is_recorded_as_not_done(kept: RecordedStore) -> None:
    await kept.put("a", new=True)
    with pytest.raises(Conflict):
        await kept.put("a", new=True)
    assert [event for event, _ in kept.recorded()] == [EVENT, NOT_DONE]
    assert "changed meanwhile" in kept.recorded()[-1][1]


async def test_of_many_at_once_each_is_done_with_its_record_or_not_at_all(kept: RecordedStore) -> None:
    wishes = [f"{number % 20}" for number in range(60)]
    told = await asyncio.gather(*(kept.put(id_, new=True) for id_ in wishes), return_exceptions=True)
    assert sum(1 for each in told if each is None) == len(kept.things) == 20
    assert [event for event, _ in kept.recorded()].count(EVENT) == 20
    assert [event for event, _ in kept.recorded()].count(NOT_DONE) == 40


async def test_what_cannot_be_recorded_is_not_done_then_or_later(
    kept: RecordedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(database: Database, values: object) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(rows, "append_values", full)
        with pytest.raises(NotRecorded, match="the disk is full"):
            await kept.put("a")
        with pytest.raises(NotRecorded, match="the disk is full"):
            await kept.put("b")
    await kept.well()
    assert await kept.store.find(THINGS) == []
    assert [event for event, _ in kept.recorded()] == [NOT_DONE], "what was begun is told, what was refused is not"


async def test_a_change_whose_commit_was_not_confirmed_is_known_in_the_end(
    kept: RecordedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = kept.store.write

    def write_without_answer(work: Callable[[Database], Any], done: Callable[[Any, StoreError | None], None]) -> None:
        write(work, lambda result, error: done(None, StoreUnavailable("the connection broke")))

    with monkeypatch.context() as broken:
        broken.setattr(kept.store, "write", write_without_answer)
        with pytest.raises(NotRecorded, match="the connection broke"):
            await kept.put("a", new=True)
    await kept.well()
    assert kept.things.get("a") == Thing("a")
    assert kept.recorded() == [(EVENT, "a")]


async def test_the_records_of_one_change_are_never_parted(kept: RecordedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_BATCH", 2)
    commits: list[int] = []
    append = rows.append_values

    def counted(database: Database, made: list[Row]) -> None:
        commits.append(len(made))
        append(database, made)

    monkeypatch.setattr(rows, "append_values", counted)
    kept.recorder.add(event_record(EVENT, reason="before"))
    async with kept.store.transaction() as change:
        for id_ in "abcde":
            change.put(THINGS, Thing(id_))
            change.record(event_record(EVENT, ADA, reason=id_))
    assert commits == [6]
    assert len(kept.recorded()) == 6
