"""The contract of the store, checked on both databases."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from cases import each_case
from interlock.store import (
    Collection,
    Conflict,
    Store,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    WrongChecksum,
    documents,
    unreadable_entries,
)
from interlock.store.connect import connect, is_shared
from interlock.store.database import transaction
from interlock.store.feed import STALLED_S
from waiting import until

from .things import THINGS, Thing

pytestmark = pytest.mark.anyio


async def put(store: Store, *things: Thing) -> None:
    async with store.transaction() as change:
        for thing in things:
            change.put(THINGS, thing)


async def test_a_document_is_read_with_a_version_that_grows(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a", "x", 1))
    await put(store, Thing("a", "y", 2))
    found = await store.get(THINGS, "a")
    assert found is not None
    assert (found.version, found.value) == (2, Thing("a", "y", 2))
    assert await store.get(THINGS, "b") is None
    await store.close()


async def test_documents_survive_closing_and_opening(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a", note="ünï\u0000code \U0001f600"))
    await store.close()
    store = await Store.open(where, [THINGS])
    found = await store.get(THINGS, "a")
    await store.close()
    assert found is not None
    assert found.value.note == "ünï\u0000code \U0001f600"


async def test_a_closed_database_is_one_file(tmp_path: Path) -> None:
    store = await Store.open(str(tmp_path / "hub.db"), [THINGS])
    await put(store, Thing("a"))
    assert await store.get(THINGS, "a") is not None, "with a reader, too"
    await store.close()
    assert sorted(os.listdir(tmp_path)) == ["hub.db"]


async def test_documents_are_found_by_every_declared_column(where: str) -> None:
    store = await Store.open(where, [THINGS])
    long = "n" * 5000
    await put(store, Thing("a", "x", 1), Thing("b", "x", 2), Thing("c", "y", 2, long), Thing("d", "\0", 0))
    await put(store, Thing("b", "z", 2))

    async def keys(**columns: object) -> list[str]:
        return [document.key for document in await store.find(THINGS, **columns)]

    assert await keys() == ["a", "b", "c", "d"]
    assert await keys(owner="x") == ["a"]
    assert await keys(size=2) == ["b", "c"]
    assert await keys(size=2, owner="z") == ["b"]
    assert await keys(note=long) == ["c"]
    assert await keys(owner="\0") == ["d"]
    with pytest.raises(ValueError, match="not declared"):
        await keys(id="a")
    await store.close()


async def test_a_transaction_changes_nothing_when_a_document_it_read_was_changed(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a"))

    async def late() -> None:
        async with store.transaction() as change:
            await change.get(THINGS, "a")
            await put(store, Thing("a", "somebody else"))
            change.put(THINGS, Thing("a", "me"))
            change.put(THINGS, Thing("b", "me"))

    with pytest.raises(Conflict):
        await late()
    assert [document.value for document in await store.find(THINGS)] == [Thing("a", "somebody else")]
    await store.close()


async def test_a_document_can_be_inserted_once(where: str) -> None:
    store = await Store.open(where, [THINGS])

    async def insert() -> bool:
        try:
            async with store.transaction() as change:
                change.insert(THINGS, Thing("only"))
        except Conflict:
            return False
        return True

    assert sorted(await asyncio.gather(*(insert() for _ in range(20)))) == [False] * 19 + [True]
    await store.close()


async def test_increments_from_many_tasks_are_all_counted(where: str) -> None:
    store = await Store.open(where, [THINGS])

    async def increment() -> None:
        while True:
            try:
                async with store.transaction() as change:
                    found = await change.get(THINGS, "n")
                    change.put(THINGS, Thing("n", size=1 + (found.value.size if found else 0)))
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(12)))
    found = await store.get(THINGS, "n")
    assert found is not None
    assert (found.value.size, found.version) == (12, 12)
    await store.close()


async def test_an_exception_inside_a_transaction_discards_it(where: str) -> None:
    store = await Store.open(where, [THINGS])

    async def fail() -> None:
        async with store.transaction() as change:
            change.put(THINGS, Thing("a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await store.find(THINGS) == []
    await store.close()


async def test_a_version_is_never_reused_after_a_deletion(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a", "first"))
    old = await store.get(THINGS, "a")
    assert old is not None
    async with store.transaction() as change:
        change.delete(THINGS, "a")
    assert await store.get(THINGS, "a") is None
    assert await store.find(THINGS, owner="first") == []
    await put(store, Thing("a", "second"))
    change = store.transaction()
    change.expect(THINGS, "a", old.version)
    change.put(THINGS, Thing("a", "third"))
    with pytest.raises(Conflict):
        await change.__aexit__(None, None, None)
    await store.close()


async def test_a_mirror_has_followed_when_the_change_returns(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("old"))
    mirror = await store.mirror(THINGS)
    changed: list[tuple[str, Thing | None]] = []
    stop = mirror.on_change(lambda key, value: changed.append((key, value)))
    before = mirror.generation
    await put(store, Thing("new", "x"))
    assert mirror.get("new") == Thing("new", "x")
    async with store.transaction() as change:
        change.delete(THINGS, "old")
    assert mirror.get("old") is None
    assert [*mirror.values()] == [Thing("new", "x")]
    assert (len(mirror), mirror.generation) == (1, before + 2)
    stop()
    await put(store, Thing("new", "y"))
    assert changed == [("new", Thing("new", "x")), ("old", None)]
    await store.close()


async def test_columns_are_rebuilt_when_a_collection_is_declared_differently(where: str) -> None:
    plain = Collection("things", Thing, key="id")
    store = await Store.open(where, [plain])
    async with store.transaction() as change:
        change.put(plain, Thing("a", "x"))
    await store.close()
    store = await Store.open(where, [THINGS])
    assert [document.key for document in await store.find(THINGS, owner="x")] == ["a"]
    await store.close()


async def test_a_unit_that_cannot_be_written_fails_alone(where: str) -> None:
    store = await Store.open(where, [THINGS])
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(_: object) -> None:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(10)

    def clash(database: object) -> None:
        database.execute("INSERT INTO counters (name, value) VALUES ('revision', 1)")  # type: ignore[attr-defined]

    holding = asyncio.create_task(store.commit(hold))
    good, bad = asyncio.create_task(put(store, Thing("a"))), asyncio.create_task(store.commit(clash))
    also = asyncio.create_task(put(store, Thing("b")))
    await asyncio.sleep(0)
    gate.set()
    done = await asyncio.gather(holding, good, bad, also, return_exceptions=True)
    assert [type(result) for result in done] == [type(None), type(None), Conflict, type(None)]
    assert [document.key for document in await store.find(THINGS)] == ["a", "b"]
    await store.close()


async def test_a_backup_made_under_load_is_consistent_and_restores_into_either_database(
    where: str, tmp_path: Path
) -> None:
    store = await Store.open(where, [THINGS])
    stop = False

    async def load() -> None:
        count = 0
        while not stop:
            count += 1
            await put(store, Thing("one", size=count), Thing("two", size=count))

    loading = asyncio.create_task(load())
    await store.get(THINGS, "one")
    while await store.get(THINGS, "two") is None:
        await asyncio.sleep(0)
    copy = tmp_path / "copy.db"
    await store.backup(copy)
    stop = True
    await loading
    await put(store, Thing("later"))
    mirror = await store.mirror(THINGS)
    await store.restore(copy)
    one, two = mirror.get("one"), mirror.get("two")
    assert one is not None
    assert two is not None
    assert one.size == two.size
    assert mirror.get("later") is None
    assert len(await store.find(THINGS, size=one.size)) == 2
    await store.close()
    other = await Store.open(tmp_path / "other.db", [THINGS])
    await other.restore(copy)
    assert {document.key for document in await other.find(THINGS)} == {"one", "two"}
    await other.close()


async def test_a_damaged_backup_changes_nothing(where: str, tmp_path: Path) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a"))
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"not a database" * 1000)
    empty = tmp_path / "empty"
    empty.touch()
    for path in (rubbish, empty):
        with pytest.raises(StoreDamaged):
            await store.restore(path)
    with pytest.raises(StoreError, match="the backup cannot be read"):
        await store.restore(tmp_path / "nowhere")
    assert await store.get(THINGS, "a") is not None
    await store.close()


async def test_a_database_from_a_later_version_is_left_alone(where: str, tmp_path: Path) -> None:
    await (await Store.open(where)).close()
    database = connect(where)
    database.execute("INSERT INTO schema_steps VALUES (99, 'later', 0)")
    database.close()
    with pytest.raises(StoreTooNew) as caught:
        await Store.open(where, [THINGS], backups=tmp_path)
    assert caught.value.hint


async def test_a_flipped_bit_in_a_document_is_detected_as_damage(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a", "good"))
    database = connect(where)
    database.execute("UPDATE documents SET body = replace(body, 'good', 'gooe')")
    database.close()
    with pytest.raises(StoreDamaged):
        await store.get(THINGS, "a")
    mirror = await store.mirror(THINGS)
    assert isinstance(mirror.problems["a"], WrongChecksum)
    with pytest.raises(StoreDamaged):
        mirror.get("b")
    await store.close()


async def test_a_damaged_document_hides_no_other_and_a_restored_backup_repairs_it(where: str, tmp_path: Path) -> None:
    store = await Store.open(where, [THINGS])
    mirror = await store.mirror(THINGS)
    for id_ in ("a", "b", "c"):
        await put(store, Thing(id_, "good"))
    await store.backup(tmp_path / "copy")
    # Another node deletes one, and its row is damaged on the way: nobody may go on with the old state.
    spoil = "UPDATE documents SET body = NULL, version = version + 1, revision = revision + 100 WHERE key = 'a'"
    await store.commit(lambda database: database.execute(spoil))
    await store.commit(lambda database: database.execute("UPDATE counters SET value = 200 WHERE name = 'revision'"))
    await until(lambda: "a" in mirror.problems)
    assert mirror.lookup("a") is None
    await put(store, Thing("b", "new"))
    assert (mirror.lookup("b"), store.behind_s() < STALLED_S) == (Thing("b", "new"), True)
    assert store.problems()["things"].keys() == {"a"}
    again = await Store.open(where, [THINGS])
    later = await again.mirror(THINGS)
    assert later.problems.keys() == {"a"}, "a deletion that was damaged is no deletion"
    assert later.lookup("c") == Thing("c", "good")
    await again.close()
    await store.commit(lambda database: documents.forget_deleted(database, 2**53))
    assert unreadable_entries(where, [THINGS]) == ["'a' of things"], "it counts until somebody decides"
    await store.restore(tmp_path / "copy")
    assert (mirror.problem, mirror.get("a")) == (None, Thing("a", "good"))
    await store.close()


@pytest.mark.parametrize("purges", [False, True])
async def test_t31_a_damaged_revision_hides_no_later_change_from_other_nodes(where: str, purges: bool) -> None:
    one, two = await Store.open(where, [THINGS]), await Store.open(where, [THINGS])
    mirror = await two.mirror(THINGS)
    await put(one, Thing("a"), Thing("b"))
    async with one.transaction() as change:
        change.delete(THINGS, "a")
    await until(lambda: len(mirror) == 1)
    spoil = "UPDATE documents SET revision = revision + 1099511627776 WHERE key = 'a'"
    await one.commit(lambda database: database.execute(spoil))
    assert unreadable_entries(where, [THINGS]) == ["'a' of things"]
    if purges:
        await one.commit(lambda database: documents.forget_deleted(database, 2**53))
    read = two.feed.current_at
    await until(lambda: two.feed.current_at > read)
    await put(one, Thing("b", "revoked"))
    await until(lambda: mirror.lookup("b") == Thing("b", "revoked"))
    for store in (one, two):
        await store.close()


async def test_t31_a_counter_of_changes_that_went_back_counts_as_a_store_that_cannot_be_read(where: str) -> None:
    other, store = await Store.open(where, [THINGS]), await Store.open(where, [THINGS])
    mirror = await store.mirror(THINGS)
    await put(other, Thing("a"), Thing("b"))
    await until(lambda: len(mirror) == 2)
    back = "UPDATE counters SET value = 0 WHERE name = 'revision'"
    await other.commit(lambda database: database.execute(back))
    await until(lambda: isinstance(store.feed.failure, StoreDamaged))
    for each in (other, store):
        await each.close()


async def test_entries_that_are_not_of_their_struct_are_named_without_a_hub(where: str) -> None:
    class Strict(msgspec.Struct):
        id: str
        note: str

    store = await Store.open(where, [THINGS])
    await put(store, Thing("a"), Thing("b", note="x"))
    await store.close()
    assert unreadable_entries(where, [Collection("things", Strict, key="id")]) == ["'a' of things"]


async def test_a_document_that_this_version_cannot_read_stops_its_mirror_from_answering(where: str) -> None:
    class Other(msgspec.Struct, frozen=True):
        id: str
        size: str = "large"

    store = await Store.open(where, [THINGS])
    mirror = await store.mirror(THINGS)
    mirror.collection = Collection("things", Other, key="id")  # type: ignore[assignment]
    await put(store, Thing("a", size=3))
    with pytest.raises(StoreDamaged):
        mirror.get("b")
    await store.close()


async def test_a_closed_store_refuses(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await store.close()
    with pytest.raises(StoreUnavailable):
        await put(store, Thing("a"))


async def test_a_read_transaction_sees_a_snapshot_while_others_commit(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await put(store, Thing("a", size=1))
    reader = connect(where, read_only=True)
    with transaction(reader, read_only=True):
        first = reader.execute("SELECT version FROM documents")
        await put(store, Thing("a", size=2))
        assert reader.execute("SELECT version FROM documents") == first
    reader.close()
    await store.close()


class Careless(msgspec.Struct):
    id: str
    api_key: str


class Nested(msgspec.Struct):
    id: str
    inner: list[Careless]


class Careful(msgspec.Struct):
    id: str
    api_key_hash: str


def test_a_collection_refuses_a_field_named_like_a_secret() -> None:
    for kind in (Careless, Nested):
        with pytest.raises(ValueError, match="'api_key', named like a secret"):
            Collection("careless", kind, key="id")
    Collection("careful", Careful, key="id")


def test_a_collection_names_fields_that_exist() -> None:
    with pytest.raises(ValueError, match="no field"):
        Collection("things", Thing, key="id", columns=("colour",))


@each_case("key", ["", "k" * 513, "\0"])
def test_a_key_that_is_empty_too_long_or_has_a_nul_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        THINGS.key_of(Thing(key))


async def test_a_node_has_one_hub_at_a_time_and_a_second_is_told_which(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.store.store.CLAIM_S", 0.5)
    first = await Store.open(where, [THINGS], node="north")
    other = await Store.open(where, [THINGS], node="south")
    for _ in range(2):
        with pytest.raises(StoreError, match=f"another hub is the node 'north'.*process {os.getpid()} on ") as refused:
            await Store.open(where, [THINGS], node="north")
        assert "`node` of its own" in refused.value.hint
        before = first.feed.database
        assert before is not None
        before.interrupt()  # The lock goes with the connection, and comes back with the next.
        await until(lambda: first.feed.database not in (before, None) or not is_shared(where))  # noqa: B023
        read_at = first.feed.current_at
        await until(lambda: first.feed.current_at > read_at)  # noqa: B023
        assert first.feed.holder is None
    await first.close()
    again = await Store.open(where, [THINGS], node="north")
    assert again.feed.holder is None
    await again.close()
    await other.close()
