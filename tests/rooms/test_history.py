"""History: a participant that comes back gets what it missed, in order and once, or learns that it is lost."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from hub.running_hub import until
from interlock.config.settings import TopicSettings
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.room_documents import HISTORY_HEADS, HISTORY_SEGMENTS, HistoryHead
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import decode, encode
from interlock.protocols.mcpx.routing import ReceiveMode, TopicParticipant
from interlock.rooms import Participant
from interlock.rooms import participant_connection as module
from interlock.rooms.history import MAX_BYTES, TopicHistory
from interlock.store import Store, StoreUnavailable, Transaction

from .running import Peer, RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

MEMBERS = {"ann": "full-access", "bob": "full-access", "eve": "full-access"}
KEPT = TopicSettings(members=MEMBERS, history=20)
NONE = TopicSettings(members=MEMBERS)


def cursor(peer: Peer) -> str:
    return str(peer.welcome["payload"]["history"]["cursor"])


async def chats(peer: Peer) -> list[str]:
    return [one["payload"]["text"] for one in await peer.nothing() if one["kind"] == "chat"]


async def say(peer: Peer, *texts: str, **members: object) -> None:
    for text in texts:
        await peer.send("chat", {"text": text}, **members)
    await peer.nothing()


async def test_what_was_missed_comes_in_order_and_before_anything_new(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=KEPT, none=NONE) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob", mode="directed")
        assert "recovered" not in bob.welcome["payload"]["history"]
        await say(ann, "heard")
        told = await bob.next("system/history")
        assert told["to"] == ["bob"]
        await bob.leave()
        await say(ann, "one", "two")
        await say(ann, "not for bob", to=["eve"])
        await say(ann, "three", to=["bob"])
        bob = await rooms.join("bob", mode="directed", since=told["payload"]["cursor"])
        assert bob.welcome["payload"]["history"]["recovered"] is True
        assert bob.welcome["payload"]["history"]["cursor"] == told["payload"]["cursor"], "until it has everything"
        await say(ann, "new")
        assert await chats(bob) == ["one", "two", "three", "new"]
        none = await rooms.join("bob", "none", since=told["payload"]["cursor"])
        assert "history" not in none.welcome["payload"]
        assert (await none.error())["payload"]["error"] == "history_lost"


async def test_what_is_no_longer_kept_is_told(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=KEPT) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await bob.leave()
        await say(ann, *(str(number) for number in range(20)))
        back = await rooms.join("bob", since=cursor(bob))
        assert await chats(back) == [str(number) for number in range(20)]
        await back.leave()
        await say(ann, "one more")
        back = await rooms.join("bob", since=cursor(bob))
        assert back.welcome["payload"]["history"]["recovered"] is False
        assert (await back.error())["payload"]["error"] == "history_lost"
        assert await chats(back) == []


async def test_t95_nobody_reads_from_before_it_was_there(tmp_path: Path) -> None:
    """A cursor of somebody else, of another topic, or with another offset is worth nothing."""
    async with running_rooms(tmp_path, build=KEPT, other=KEPT) as rooms:
        ann, elsewhere = await rooms.join("ann"), await rooms.join("eve", "other")
        await say(ann, "secret plans")
        eve = await rooms.join("eve")
        epoch, _, mac = cursor(eve).split(".")
        await eve.leave()
        for stolen in (
            cursor(ann),
            cursor(elsewhere),
            f"{epoch}.0.{mac}",
            f"{epoch}.0",
            "",
            "x" * 300,
            f"{epoch}.-1.{mac}",
        ):
            eve = await rooms.join("eve", since=stolen)
            assert eve.welcome["payload"]["history"]["recovered"] is False, stolen
            assert await chats(eve) == [], stolen
            await eve.leave()


async def test_the_history_outlives_a_restart_but_not_a_crash_and_is_sealed(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=KEPT) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await bob.leave()
        await say(ann, "the password is swordfish")
        keys = rooms.keys
    async with running_rooms(tmp_path, build=KEPT) as rooms:
        rooms.keys |= keys
        segments = await rooms.hub_app.store.find(HISTORY_SEGMENTS)
        assert segments
        assert "swordfish" not in repr(segments)
        back = await rooms.join("bob", since=cursor(bob))
        assert await chats(back) == ["the password is swordfish"]
        await back.leave()
        place = segments[0].value.place
        head = await rooms.hub_app.store.get(HISTORY_HEADS, place)
        assert head is not None
        assert head.value.clean is None, "a crash would be seen"
        epoch = head.value.epoch
    store = await Store.open(tmp_path / "hub.db", COLLECTIONS)
    async with store.transaction() as change:
        change.put(HISTORY_HEADS, HistoryHead(place, epoch, None))
    await store.close()
    async with running_rooms(tmp_path, build=KEPT) as rooms:
        rooms.keys |= keys
        back = await rooms.join("bob", since=cursor(bob))
        assert back.welcome["payload"]["history"]["recovered"] is False


async def test_a_history_that_was_off_for_a_while_begins_anew(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=KEPT) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await bob.leave()
        await say(ann, "kept")
        await rooms.reload(build=NONE)
        await say(ann, "not kept")
        await rooms.reload(build=KEPT)
        await say(ann, "kept again")
        back = await rooms.join("bob", since=cursor(bob))
        assert back.welcome["payload"]["history"]["recovered"] is False
        assert await chats(back) == []


async def test_a_topic_that_keeps_no_history_any_more_leaves_none_in_the_store(tmp_path: Path) -> None:
    async def stored(rooms: RunningRooms) -> set[str]:
        store = rooms.hub_app.store
        heads = {head.key for head in await store.find(HISTORY_HEADS)}
        segments = {segment.value.place for segment in await store.find(HISTORY_SEGMENTS)}
        return {place.partition("/")[2] for place in heads | segments}

    async with running_rooms(tmp_path, closed=KEPT, off=KEPT, kept=KEPT, later=KEPT) as rooms:
        histories = rooms.gateway.topics.histories
        for topic in ("closed", "off", "kept", "later"):
            await say(await rooms.join("ann", topic), "secret")
        await histories.write()
        assert await stored(rooms) == {"closed", "off", "kept", "later"}
        await rooms.reload(off=NONE, kept=KEPT, later=KEPT)
        await rooms.operate("rooms.list")
        await histories.write()
        assert await stored(rooms) == {"kept", "later"}
    async with running_rooms(tmp_path, kept=KEPT, later=NONE) as rooms:
        await rooms.gateway.topics.histories.write()
        assert await stored(rooms) == {"kept"}


async def test_the_bound_of_a_history_counts_bytes_and_holds_while_the_store_hangs(tmp_path: Path) -> None:
    history, cursors = TopicHistory("node/build", 1_000, b"key"), []
    for number in range(20):
        cursors.append(history.cursor("bob"))
        text = "漢" * 60_000
        history.add(decode(encode(str(number), "ann", "chat", {"text": text})), None)
    bob = TopicParticipant("bob", "bob", CapabilitySet(()), ReceiveMode.ALL)
    missed = [history.missed(cursor, "bob", bob) for cursor in cursors]
    sizes = [sum(len(entry.data.encode()) for entry in one) for one in missed if one is not None]
    assert max(sizes) <= MAX_BYTES
    assert len(sizes) < 13
    store = await Store.open(tmp_path / "hub.db", COLLECTIONS)
    await history.write(store)
    written = sum(len(segment.value.sealed) for segment in await store.find(HISTORY_SEGMENTS))
    assert written < 2 * MAX_BYTES, "envelopes that are no longer kept were not written either"
    await store.close()


async def test_envelopes_that_could_not_be_stored_are_stored_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(tmp_path / "hub.db", COLLECTIONS)
    history = TopicHistory("node/build", 1_000, b"key")
    await history.load(store)
    cursor = history.cursor("bob")
    history.add(decode(encode("1", "ann", "chat", {"text": "one"})), None)

    def away() -> Transaction:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "transaction", away)
        with pytest.raises(StoreUnavailable):
            await history.write(store)
    history.add(decode(encode("2", "ann", "chat", {"text": "two"})), None)
    await history.close(store)
    later = TopicHistory("node/build", 1_000, b"key")
    await later.load(store)
    bob = TopicParticipant("bob", "bob", CapabilitySet(()), ReceiveMode.ALL)
    assert len(later.missed(cursor, "bob", bob) or ()) == 2
    await store.close()


async def test_a_participant_that_reconnects_misses_nothing_and_hears_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    chance = random.Random(7)
    big = TopicSettings(members=MEMBERS, history=1_000)
    async with running_rooms(tmp_path, build=big) as rooms:
        ann, url = await rooms.join("ann"), f"http://127.0.0.1:{rooms.port}"
        heard: list[str] = []
        async with Participant(url, "build", await rooms.key("bob")) as bob:
            reading = asyncio.create_task(_hear(bob, heard))
            for number in range(120):
                if chance.random() < 0.1:
                    cut(rooms, "bob")
                await ann.send("chat", {"text": str(number)})
            await until(lambda: heard[-1:] == ["119"])
            assert heard == [str(number) for number in range(120)]
            assert bob.gaps == 0
            reading.cancel()


async def _hear(bob: Participant, heard: list[str]) -> None:
    async for envelope in bob:
        if envelope.kind.type == "chat":
            text: str = json.loads(envelope.payload)["text"]
            heard.append(text)


def cut(rooms: RunningRooms, id: str) -> None:
    """Cut the connection of a participant, without a goodbye."""
    for room in rooms.gateway.rooms:
        for member in room.members:
            if member.id == id:
                member.connection.close(1001, "cut")
