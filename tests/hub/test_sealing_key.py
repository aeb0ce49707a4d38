"""`[hub] sealing_key`: hubs that share a store seal with one key, and a hub with another key does not start."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hub.running_hub import running_hub, text_of
from hub.test_server_logins import call, log_in
from interlock.config.hub_secret import hub_secret
from interlock.config.settings import Config, HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.keys import KEYS, Keys
from interlock.hub.cannot_start import CannotStart
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.sealing_key import SEALED, claim_store
from interlock.hub.upstreams.states import ServerState
from interlock.store import Store, StoreError
from interlock.store.connect import is_shared
from interlock.web.run import serve
from protected_server import ProtectedServer


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def sealed_with(key: str | None) -> Config:
    return Config(hub=HubSettings(sealing_key=key))


def own_keys(folder: Path) -> list[Path]:
    return list(folder.rglob("keys.secret"))


@pytest.fixture
async def store(where: str) -> AsyncIterator[Store]:
    store = await Store.open(where, COLLECTIONS)
    yield store
    await store.close()


def test_every_collection_with_sealed_values_is_among_those_that_are_sealed_anew() -> None:
    sealed = {one.name for one in COLLECTIONS if "sealed" in getattr(one.kind, "__struct_fields__", ())}
    assert sealed == {each.collection.name for each in SEALED}


async def test_hubs_with_one_key_read_each_others_logins_and_keys(tmp_path: Path, postgres: str) -> None:
    settings = HubSettings(store=postgres, sealing_key=new_key(), timeouts=TimeoutSettings(discovery_s=60, tool_s=60))
    async with ProtectedServer() as protected:
        docs = {"docs": ServerSettings(url=protected.url)}
        async with running_hub(tmp_path / "first", docs, wait=False, hub=settings) as first:
            await first.state("docs", ServerState.ERROR)
            await log_in(first)
            await first.state("docs", ServerState.CONNECTED)
            key = await first.new_key("ann")
            async with running_hub(tmp_path / "second", docs, hub=settings) as second:
                assert text_of(await call(second, key)) == "you are client-1"
    assert own_keys(tmp_path) == [], "no home has a key of its own"


async def test_t24_a_hub_with_another_key_does_not_start_and_writes_nothing(tmp_path: Path, store: Store) -> None:
    key, home = new_key(), tmp_path / "home"
    for _ in range(2):
        await claim_store(store, sealed_with(key), home)
    for other in (new_key(), None):
        config = Config(hub=HubSettings(listen="127.0.0.1:0", store=store.where, sealing_key=other))
        with pytest.raises(CannotStart, match=r"sealed with another key|key of this hub is lost") as refused:
            await serve(config, home, lambda ready: None)
        assert ("set the same `sealing_key`" in refused.value.hint) >= (other is None and is_shared(store.where))
    assert await store.read(lambda database: database.execute("SELECT count(*) FROM records")) == [(0,)]


async def test_t24_of_two_first_hubs_with_different_keys_one_is_refused(tmp_path: Path, store: Store) -> None:
    second = await Store.open(store.where, COLLECTIONS)
    claims = [claim_store(each, sealed_with(new_key()), tmp_path) for each in (store, second)]
    outcomes = await asyncio.gather(*claims, return_exceptions=True)
    await second.close()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "SealedElsewhere"]


async def test_a_hub_that_had_a_key_of_its_own_goes_on_only_with_the_same_in_its_configuration(
    tmp_path: Path, store: Store
) -> None:
    home = tmp_path / "home"
    _, made = Keys(home).make("ann", "agent")
    async with store.transaction() as change:
        change.insert(KEYS, made)
    same = base64.urlsafe_b64encode(hub_secret(home)).decode().rstrip("=")
    for key, place in ((new_key(), home), (same, tmp_path / "elsewhere")):
        with pytest.raises(StoreError, match="made without this"):
            await claim_store(store, sealed_with(key), place)
    await claim_store(store, sealed_with(same), home)
    await claim_store(store, sealed_with(same), tmp_path / "elsewhere")
    await claim_store(store, sealed_with(None), home)
