"""Entries of the store that do not match their checksum: each permits nothing, and what may be a denial denies all."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from interlock.config.live_settings import LiveRuleSettings, LiveSettings
from interlock.config.model_settings import InferenceSettings
from interlock.config.settings import ServerSettings
from interlock.events import Bus
from interlock.host.budgets import Budgets
from interlock.hub.admin.backups import put_back
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.passphrase import ATTEMPTS, PASSPHRASES, Passphrase
from interlock.hub.approvals.rules import RULES
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Principal, local_person
from interlock.hub.catalog.target import Target
from interlock.hub.conversation_documents import INFERENCES
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.documents import LIVE_PENDING, LIVE_WAKES, UNSENT_WAKES, UnsentWake, pending_id
from interlock.hub.live.events.touches import LIVE_TOUCHED, Touches
from interlock.hub.live.events.wake_chains import WakeChains
from interlock.hub.live.events.wake_decisions import WakeDecisions
from interlock.hub.room_documents import HISTORY_HEADS
from interlock.hub.taints import TAINTS, Source, Taint, Taints
from interlock.hub.tasks.ledger import TASKS
from interlock.hub.upstreams.registration.registration import REGISTRATIONS, RegistrationParams
from interlock.protocols.mcpl.wake import WakeVerdict
from interlock.server import Server
from interlock.store import Collection, Store, StoreDamaged
from interlock.store.database import Database
from interlock.store.documents import Change, Changes
from interlock.wire.errors import Fault

from .people import read_and_answer
from .running_hub import RawClient, RunningHub, running_hub, until
from .test_approvals_of_two_hubs import question
from .test_permissions_of_two_hubs import without_records

ANN, BOB = (cast(Any, SimpleNamespace(principal_name=f"agent:{name}", principal=None)) for name in ("ann", "bob"))


async def damage(store: Store, collection: Collection[Any], like: str) -> None:
    """Alter a stored entry behind the store's back, as a later change that every node reads."""
    spoil = (
        "UPDATE documents SET body = replace(body, '\"agent', '\"agenu'), revision = (SELECT value FROM counters"
        " WHERE name = 'revision') WHERE collection = ? AND body LIKE ?"
    )

    def write(database: Database) -> None:
        database.execute("UPDATE counters SET value = value + 1 WHERE name = 'revision'")
        database.execute(spoil, (collection.name, like))

    await store.commit(write)


async def plant(store: Store, collection: Collection[Any], key: str, *, checksum: bool = False) -> None:
    """Add an entry that is not of its struct. Without the right checksum, its key is not certain either."""
    body = '["damaged"]'
    sums = zlib.crc32("\0".join((collection.name, key, "1", "." + body)).encode()) if checksum else 0

    def write(database: Database) -> None:
        database.execute("UPDATE counters SET value = value + 1 WHERE name = 'revision'")
        database.execute(
            "INSERT INTO documents (collection, key, version, revision, changed, body, checksum)"
            " VALUES (?, ?, 1, (SELECT value FROM counters WHERE name = 'revision'), 0, ?, ?)",
            (collection.name, key, body, sums),
        )
        if "day" in collection.columns:
            today = (collection.name, "day", str(int(time.time() // 86_400)), key)
            database.execute("INSERT INTO document_columns (collection, name, value, key) VALUES (?, ?, ?, ?)", today)

    await store.commit(write)


async def echoed(hub: RunningHub, key: str) -> str:
    answer = await RawClient(hub.url + "/mcp", key).modern("tools/call", {"name": "notes__look", "arguments": {}})
    error = answer.get("error")
    return str(error["data"]["name"]) if error else str(answer["result"]["content"][0]["text"])


async def test_a_damaged_key_is_refused_alone_and_a_damaged_grant_refuses_all(tmp_path: Path) -> None:
    notes = Server("notes")

    @notes.tool
    def look() -> str:
        """Look at the notes."""
        return "milk"

    async with notes.http() as served:
        servers = {"notes": ServerSettings(url=served.url)}
        async with running_hub(tmp_path, servers) as hub:
            keys = {name: await hub.new_key(name) for name in ("ann", "bob", "cat")}
            await hub.allow("ann", "notes")
            assert [await echoed(hub, key) for key in keys.values()] == ["milk"] * 3
            await hub.hub_app.store.backup(tmp_path / "whole.backup")
            await damage(hub.hub_app.store, KEYS, '%"bob"%')
            await until(lambda: hub.hub_app.warnings)
            assert [await echoed(hub, key) for key in keys.values()] == ["milk", "AUTH_REQUIRED", "milk"]
        async with running_hub(tmp_path, servers) as hub:
            assert [await echoed(hub, key) for key in keys.values()] == ["milk", "AUTH_REQUIRED", "milk"]
            (warning,) = (await hub.operate("status"))["warnings"]
            assert warning["message"].startswith("entries of keys cannot be read (")
            assert "interlock restore" in warning["hint"]
            await damage(hub.hub_app.store, GRANTS, '%"ann"%')
            await until(lambda: len(hub.hub_app.warnings) == 2)
        async with running_hub(tmp_path, servers) as hub:
            assert await echoed(hub, keys["cat"]) == "SERVER_NOT_READY", "it may be a denial of anybody"
            shown = str((await hub.operate("status"))["warnings"])
            assert "entries of grants cannot be read" in shown
            assert "one may be a denial" in shown
            config, home = hub.hub_app.config, hub.hub_app.home
        assert (await put_back(config, home, tmp_path / "whole.backup", local_person("tester"))).sound
        async with running_hub(tmp_path, servers) as hub:
            assert [await echoed(hub, key) for key in keys.values()] == ["milk"] * 3


async def test_a_hub_starts_with_damaged_entries_of_every_kind_names_them_and_serves(tmp_path: Path) -> None:
    file = tmp_path / "home" / "hub.db"
    file.parent.mkdir()
    store = await Store.open(file, COLLECTIONS)
    damaged = (DECISIONS, RULES, ATTEMPTS, TASKS, REGISTRATIONS, UNSENT_WAKES, HISTORY_HEADS, LIVE_WAKES, INFERENCES)
    for collection in damaged:
        await plant(store, collection, "x")
    await store.close()
    notes = Server("notes")

    @notes.tool
    def look() -> str:
        """Look at the notes."""
        return "milk"

    async with notes.http() as served, running_hub(tmp_path, {"notes": ServerSettings(url=served.url)}) as hub:
        assert await echoed(hub, await hub.new_key("ann")) == "milk"
        shown = str((await hub.operate("status"))["warnings"])
        assert all(f"entries of {each.name} cannot be read ('x')" in shown for each in damaged)
        inbox = hub.hub_app.inbox
        asked = await inbox.ask(msgspec.structs.replace(question("one"), kind="permission", asker_kind="server"))
        await read_and_answer(inbox, asked.id, "once", local_person("tester"))
        assert await inbox.use(asked.id), "other requests are asked, answered and used"
        wanted = RegistrationParams("mine", "python", ("mine.py",), source="print()")
        with pytest.raises(Fault, match="registrations cannot be read"):
            await hub.hub_app.registrations.register(Principal("ann", "agent"), wanted)


@pytest.mark.parametrize("certain", [True, False], ids=["of ann", "of anybody"])
async def test_t129_a_taint_or_touch_that_cannot_be_read_counts_and_where_its_agent_is_not_certain_for_all(
    tmp_path: Path, certain: bool
) -> None:
    collections = (TAINTS, LIVE_TOUCHED, LIVE_PENDING)
    store = await Store.open(tmp_path / "hub.db", collections)
    taints = Taints(lambda: 1000.0, cast(Any, None), lambda *_: None)
    touches, events = (Touches(lambda: 60.0, lambda *_: None) for _ in range(2))
    deliveries = EventDeliveries(cast(Any, None), cast(Any, None), Bus(), events)
    await taints.start(store)
    await touches.start(store, cast(Any, SimpleNamespace(on_touched=lambda agent: None)))
    await deliveries.start(store, "node")

    def count() -> list[list[bool]]:
        tainted = [(found := taints.of(f"agent:{agent}")) is not None and found.asking for agent in ("ann", "bob")]
        return [tainted, *([bool(each.at(agent)) for agent in ("ann", "bob")] for each in (touches, events))]

    assert count() == [[False, False]] * 3
    await plant(store, TAINTS, "agent:ann", checksum=certain)
    await plant(store, LIVE_TOUCHED, "ann", checksum=certain)
    await plant(store, LIVE_PENDING, pending_id("ann", 1.0), checksum=certain)
    await until(lambda: count() == [[True, not certain]] * 3)
    if not certain:
        with pytest.raises(StoreDamaged):
            await taints.clear(local_person("tester"), "agent:bob", "", "")
    await store.close()


def spoil_all(database: Database) -> None:
    """Alter every entry as a failing disk does: no hub is told."""
    database.execute("UPDATE documents SET checksum = 1")


def has_length(found: list[object], length: int) -> bool:
    return len(found) == length


async def old_taint(file: Path, principal_name: str) -> None:
    """Store a taint that is over. A hub that is opened next knows it, and reads it again only after a change of it."""
    store = await Store.open(file, (TAINTS, UNSENT_WAKES))
    async with store.transaction() as change:
        change.put(TAINTS, Taint(principal_name, principal_name, (Source("web", "read", 1.0),)))
        change.put(UNSENT_WAKES, UnsentWake("1", "node", "wake", "ann", "web", 1, 1.0))
    await store.close()


async def taints_in(store: Store) -> Taints:
    journal = SimpleNamespace(tainted=lambda *_: "a record", taint_cleared=lambda *_: "another")
    taints = Taints(lambda: 1000.0, cast(Any, journal), lambda *_: None)
    await taints.start(store)
    return taints


async def test_t129_every_hub_of_a_store_counts_a_taint_that_one_of_them_found_damaged(tmp_path: Path) -> None:
    file, told = tmp_path / "hub.db", list[object]()
    await old_taint(file, "agent:ann")
    running = await Store.open(file, (TAINTS, UNSENT_WAKES))
    here, wakes = await taints_in(running), await running.mirror(UNSENT_WAKES)
    await running.commit(spoil_all)
    assert here.of("agent:ann") is None
    starting = await Store.open(file, (TAINTS, UNSENT_WAKES))
    assert (await starting.mirror(UNSENT_WAKES)).problems
    starting.commit_records_with(partial(without_records, starting))
    there = await taints_in(starting)
    there.add(ANN, Target("tool", "web", "read"), asking=True, then=partial(told.append, "text"))
    await until(lambda: here.of("agent:ann"))
    await until(partial(has_length, told, 1))
    assert told == ["text"]
    assert len([*wakes.values()]) == 1, "it had read this one before, and nobody relies on the damaged one"
    for store in (running, starting):
        await store.close()


async def test_a_taint_that_is_damaged_below_a_running_hub_keeps_no_text_from_others(tmp_path: Path) -> None:
    file, told = tmp_path / "hub.db", list[object]()
    await old_taint(file, "agent:ann")
    store = await Store.open(file, (TAINTS,))
    recorded: list[object] = []

    async def commit(changes: Changes, records: Sequence[object]) -> list[Change]:
        recorded.extend(records)
        return await without_records(store, changes, records)

    store.commit_records_with(commit)
    taints = await taints_in(store)
    await store.commit(spoil_all)
    assert taints.all() == []
    for whom, counted in ((ANN, 1), (ANN, 2), (BOB, 3)):
        source = Target("tool", "web", f"read{counted}")
        taints.add(whom, source, asking=True, then=partial(told.append, "text"), failed=told.append)
        await until(partial(has_length, told, counted))
        await until(partial(taints.of, "agent:cat"))
    assert [type(each) for each in told] == [Fault, str, str]
    assert len(recorded) == 3, "one for each source, also for the one whose text was withheld at first"
    listed = {taint.principal_name: [source.name for source in taint.sources] for taint in taints.all()}
    assert listed == {"agent:ann": ["read2", "read1"], "agent:bob": ["read3"]}
    ends = {taint.principal_name: taints.ends(taint) for taint in taints.all()}
    assert (ends["agent:ann"], ends["agent:bob"] is None) == (None, False), "nobody knows when the stored one ends"
    await store.close()


async def test_t129_a_person_who_clears_a_taint_that_cannot_be_read_clears_what_came_since(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "hub.db", (TAINTS,))
    store.commit_records_with(partial(without_records, store))
    taints, told = await taints_in(store), list[object]()
    await plant(store, TAINTS, "agent:ann", checksum=True)
    await until(lambda: taints.of("agent:ann"))
    taints.add(ANN, Target("tool", "web", "read"), asking=True, then=partial(told.append, "text"))
    await until(partial(has_length, told, 1))
    await taints.clear(local_person("tester"), "agent:ann", "", "")
    assert (taints.of("agent:ann"), taints.all()) == (None, [])
    await store.close()


async def test_t31_a_key_that_the_index_of_the_store_has_lost_is_revoked_with_the_others(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        keys = [await hub.new_key("ann") for _ in range(2)]
        lost = "DELETE FROM document_columns WHERE collection = 'keys' AND key = ?"
        hashes = [key.hash for key in hub.hub_app.keys.readable() if key.principal == "ann"]
        await hub.hub_app.store.commit(lambda database: database.execute(lost, (hashes[0],)))
        await hub.operate("keys.revoke", agent="ann")
        for key in keys:
            refused = await RawClient(hub.url + "/mcp", key).modern("tools/list")
            assert refused["error"]["data"]["name"] == "AUTH_REQUIRED"


async def test_a_decision_that_is_damaged_below_a_running_hub_keeps_no_other_from_its_end(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        inbox, store = hub.hub_app.inbox, hub.hub_app.store
        asked = [await inbox.ask(question(name)) for name in ("one", "two", "three")]
        spoil = "UPDATE documents SET checksum = 1 WHERE collection = 'decisions' AND key = ?"
        await store.commit(lambda database: database.execute(spoil, (asked[0].id,)))
        inbox.still_allowed = lambda request: False
        await inbox.sweep()
        states = [inbox.get(each.id).state.value for each in asked]
        assert states == ["open", "void", "void"]


async def test_t42_a_passphrase_that_cannot_be_read_is_set_and_no_text_is_right(tmp_path: Path) -> None:
    person = local_person("tester")
    store = await Store.open(tmp_path / "hub.db", (PASSPHRASES, ATTEMPTS))
    passphrase = Passphrase(lambda: "if-set")
    await passphrase.start(store)
    assert not passphrase.needed
    await plant(store, PASSPHRASES, "approvals")
    await until(lambda: passphrase.needed)
    with pytest.raises(Fault, match="the passphrase cannot be read"):
        await passphrase.demand(person, "open sesame")
    for way in (passphrase.set(person, "open sesame", ""), passphrase.remove(person, "open sesame")):
        with pytest.raises(Fault):
            await way
    assert passphrase.needed
    await store.close()


def test_t36_budgets_count_as_used_up_while_it_is_not_known_what_was_spent() -> None:
    budgets = Budgets(InferenceSettings, lambda: 100.0)
    budgets.hold_until(101.0)
    with pytest.raises(Fault, match="budget") as held, budgets.inference("notes", 1):
        pass
    assert held.value.retry_after_ms == 1001
    budgets.hold_until(100.0)
    with budgets.inference("notes", 1):
        pass
    wakes = LiveSettings(rules={"all": LiveRuleSettings(then="wake")})
    decisions = WakeDecisions(lambda: wakes, WakeChains())
    event = cast(Any, SimpleNamespace(server="s", feature_set="f", channel=None, tags=(), size=1))
    assert decisions.decide(event, "ann").verdict is WakeVerdict.WAKE
    decisions.hold_until(time.time() + 3600)
    decision = decisions.decide(event, "ann")
    assert (decision.verdict, decision.cause) == (WakeVerdict.HOLD, "budget")
