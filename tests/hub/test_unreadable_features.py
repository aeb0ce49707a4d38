"""Entries on feature sets that cannot be read: all sets of their server are off, and nothing else stops."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from interlock.config.settings import (
    Config,
)
from interlock.hub.live.feature_entry import FEATURES, FeatureEntry, entry_id
from interlock.hub.live.features import Features
from interlock.hub.upstreams.states import ServerState
from interlock.store import Collection, Store
from interlock.wire.errors import Fault
from waiting import until

from .host_client import HostClient
from .host_scene import between
from .running_hub import RawClient


async def test_a_client_is_offered_no_feature_set_of_a_server_whose_entries_cannot_be_read(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await damage(tmp_path / "home" / "hub.db", hub.hub_app.live.features)
        client = HostClient(hub, "mine", modern=False)
        answer = await client.initialize(client.capabilities)
        assert answer["result"]["capabilities"]["experimental"]["mcpl"]["featureSets"] == {}
        assert "result" in await client.legacy("tools/list")


class NewerEntry(msgspec.Struct):
    """An entry as this version cannot read it."""

    id: str


async def damage(where: Path, features: Features) -> None:
    """Have another hub store an entry on server `a` that cannot be read, and wait until it is known."""
    newer = Collection(FEATURES.name, NewerEntry, key="id")
    other_hub = await Store.open(where, (newer,))
    async with other_hub.transaction() as change:
        change.put(newer, NewerEntry(entry_id("a", "other", "note.recall")))
    await other_hub.close()
    await until(lambda: bool(features.entries.unreadable("a")))


async def test_a_client_leaves_also_where_the_feature_sets_cannot_be_read(tmp_path: Path) -> None:
    """A session that could not end would keep its subscriptions."""
    features, changed = Features(Config), list[str]()
    store = await Store.open(tmp_path / "hub.db", (FEATURES,))
    await features.start(store, changed.append, cast(Any, None))
    entry = FeatureEntry(entry_id("a", "mine", "note.*"), "a", "mine", "note.*", True, "ada", datetime.now(UTC))
    await features.entries.put([entry], ())
    changed.clear()
    features.host("mine", frozenset({"channels"}))
    assert changed == ["a"]
    await damage(tmp_path / "hub.db", features)
    features.host("mine", frozenset())
    assert not features.has_any("mine"), "no feature set is on, whatever its client can do"
    await store.close()


async def test_an_entry_that_cannot_be_read_switches_off_the_feature_sets_of_its_server_alone(tmp_path: Path) -> None:
    async with between(tmp_path, "a", "b") as hub:
        features = hub.hub_app.live.features
        await damage(tmp_path / "home" / "hub.db", features)
        with pytest.raises(Fault, match="the feature sets of a are off: an entry on them cannot be read"):
            features.enabled("a", "mine", "note.recall")
        assert features.enabled("b", "mine", "note.recall")
        listed = (await hub.operate("features.list"))["features"]
        assert {row["server"] for row in listed if row["agents"]} == {"b"}
        assert {row["why"] for row in listed if row["server"] == "a"} == {
            "an entry on feature sets of this server cannot be read: `interlock status` names it"
        }
        (warning,) = (await hub.operate("status"))["warnings"]
        assert warning["hint"] == "`interlock features forget a note.recall --agent other` deletes it"
        await hub.operate("features.forget", server="a", features=["note.recall"], agent="other", terminal=True)
        assert features.enabled("a", "mine", "note.recall")
        assert not (await hub.operate("status"))["warnings"]


async def test_a_server_starts_again_although_an_entry_of_feature_sets_cannot_be_read(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await damage(tmp_path / "home" / "hub.db", hub.hub_app.live.features)
        await hub.operate("servers.restart", server="a")
        await hub.state("a", ServerState.CONNECTED)
        answer = await RawClient(hub.url + "/mcp", hub.key("mine")).modern("tools/call", {"name": "a__look"})
        assert "result" in answer, answer
