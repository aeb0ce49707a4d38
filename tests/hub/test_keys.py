"""Keys in the store: shown once, kept as a hash, worthless once revoked, expired or rotated."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from interlock.config.settings import Rate
from interlock.hub.auth.keys import KEY_USES, KEYS, Keys
from interlock.hub.cannot_start import CannotStart
from interlock.store import Store
from interlock.wire.errors import Fault
from waiting import until


@contextlib.asynccontextmanager
async def keys_at(home: Path) -> AsyncIterator[Keys]:
    store = await Store.open(home / "hub.db", (KEYS, KEY_USES))
    keys = Keys(home)
    await keys.start(store)
    try:
        yield keys
    finally:
        await store.close()


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_key_leads_to_its_principal_and_is_not_kept(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        text = await keys.create("cursor", "agent", profile="work")
        found = keys.principal(text)
        assert found is not None
        assert (found.id, found.kind, found.profile) == ("cursor", "agent", "work")
        assert keys.principal(text + "x") is None
    assert text.encode() not in everything_in(tmp_path)
    assert (tmp_path / "keys.secret").stat().st_mode & 0o077 == 0
    async with keys_at(tmp_path) as again:
        assert again.principal(text) == found


async def test_an_agents_key_with_the_name_of_a_person_is_worthless(tmp_path: Path) -> None:
    """An older hub let an agent's key have such a name; no hub makes one now."""
    async with keys_at(tmp_path) as keys:
        text = await keys.create("mallory", "agent")
        (key,) = keys.mirror.values()
        older_hub = await Store.open(tmp_path / "hub.db", (KEYS,))
        async with older_hub.transaction() as change:
            change.put(KEYS, msgspec.structs.replace(key, principal="person:ada"))
        await older_hub.close()
        await until(lambda: {key.principal for key in keys.mirror.values()} == {"person:ada"})
        assert keys.principal(text) is None
        with pytest.raises(Fault, match="person:"):
            await keys.create("person:ada", "agent")


async def test_a_revoked_key_is_worthless_at_once_and_others_stay(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        one, two = await keys.create("a"), await keys.create("b", "person")
        before = keys.generation
        assert await keys.revoke("a") == 1
        assert keys.generation > before
        assert keys.principal(one) is None
        assert keys.principal(two) is not None
        assert await keys.revoke("nobody") == 0


async def test_a_rotated_key_ends_and_the_new_one_permits_the_same(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        old = await keys.create("a", permissions=("invoke:x__*",), rate=Rate(per_minute=3), profile="p")
        new = await keys.rotate("a")
        assert keys.principal(old) is None
        [kept] = keys.list()
        assert (kept.permissions, kept.rate, kept.profile) == (("invoke:x__*",), Rate(per_minute=3), "p")
        assert keys.principal(new) is not None


async def test_an_expired_key_is_refused_as_expired(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        text = await keys.create("a", expires_at=datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(Fault) as caught:
            keys.principal(text)
        assert caught.value.name == "AUTH_EXPIRED"


async def test_a_name_is_one_principal_of_one_kind(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        await keys.create("a", "agent")
        with pytest.raises(Fault, match="another kind"):
            await keys.create("a", "admin")


async def test_the_old_file_is_taken_over_once(tmp_path: Path) -> None:
    text, key = Keys(tmp_path).make("old", "agent")
    (tmp_path / "keys.json").write_bytes(msgspec.json.encode([key]))
    async with keys_at(tmp_path) as keys:
        assert keys.principal(text) is not None
        await keys.revoke("old")
    async with keys_at(tmp_path) as keys:
        assert keys.principal(text) is None


async def test_last_use_is_written_in_one_go_and_brings_no_revoked_key_back(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        text = await keys.create("a")
        found = keys.principal(text)
        assert found is not None
        assert keys.last_used(found.key) is None
        before = keys.generation
        await keys.write_uses()
        assert keys.last_used(found.key) is not None
        assert keys.generation == before, "a use is no change of a key"
        keys.used(found.key)
        await keys.revoke("a")
        await keys.write_uses()
        assert keys.principal(text) is None
        assert keys.last_used(found.key) is None


async def test_nobody_enters_before_the_store_is_open(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="starting"):
        Keys(tmp_path).principal("ilk_x")


@pytest.mark.parametrize("secret", [b"short", b"x" * 64, b"changemechangemechangemechangeme", b"A" * 32])
def test_t24_a_short_or_placeholder_secret_stops_the_start(tmp_path: Path, secret: bytes) -> None:
    (tmp_path / "keys.secret").write_bytes(secret)
    (tmp_path / "keys.secret").chmod(0o600)
    with pytest.raises(CannotStart, match="too weak"):
        Keys(tmp_path)


def test_t24_a_secret_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    Keys(tmp_path)
    (tmp_path / "keys.secret").chmod(0o644)
    with pytest.raises(CannotStart, match="other users") as refused:
        Keys(tmp_path)
    assert "chmod 600" in refused.value.hint


async def test_a_key_in_place_of_one_that_has_expired_lives_as_long_as_that_did(tmp_path: Path) -> None:
    async with keys_at(tmp_path) as keys:
        now = datetime.now(UTC)
        made = await keys.create("a", expires_at=now + timedelta(hours=2))
        kept = keys.of(await keys.rotate("a"))
        assert kept is not None
        assert kept.expires_at == now + timedelta(hours=2), "one that has not goes on to its end"
        assert keys.of(made) is None
        await keys.create("b", expires_at=now - timedelta(seconds=1))
        fresh = await keys.rotate("b")
        assert keys.principal(fresh) is not None
