"""Another key for a hub: everything is sealed with it or nothing, and after a loss the hub says what is lost."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forking
from hub.running_hub import running_hub, text_of
from hub.test_server_logins import call, log_in
from interlock.config.hub_secret import existing_secret
from interlock.config.next_secret import has_next, next_secret, prepare_next
from interlock.config.secret_store import SecretStore
from interlock.config.settings import Config, HubSettings, ServerSettings
from interlock.hub.admin.rekeying import finish_rekeying, give_up, home_key_of_store, reseal, rotate
from interlock.hub.audit.heads import heads_of
from interlock.hub.audit.verify import verify
from interlock.hub.auth.principals import local_person
from interlock.hub.auth.sealed_with import ID, SEALED_WITH, check_of
from interlock.hub.cannot_start import CannotStart
from interlock.hub.conversation_documents import TURNS, StoredTurn
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.live.server_states import STATE_TREES, StoredTree
from interlock.hub.sealing_key import SEALED, SealedElsewhere, check_stored
from interlock.hub.upstreams.login_records import LOGINS, SealedLogin, bound_to
from interlock.hub.upstreams.states import ServerState
from interlock.store import Store, StoreError, documents
from interlock.store.connect import connect
from interlock.web.run import serve
from protected_server import ProtectedServer

ME = local_person("tester")
HERE = Path(__file__).parent


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """The home of a hub with two logins, a turn, a state and a secret, sealed with its own key."""
    home = tmp_path / "sealed"
    async with running_hub(home.parent / "maker", {}):
        pass
    shutil.move(home.parent / "maker" / "home", home)
    secret = existing_secret(home)
    store = await Store.open(home / "hub.db", COLLECTIONS)
    async with store.transaction() as change:
        login = {kind.collection: kind.encryption(secret) for kind in SEALED}
        for name in ("docs", "mail"):
            id_, at = hashlib.sha256(name.encode()).hexdigest(), bound_to(name, "")
            change.put(LOGINS, SealedLogin(id_, name, "", login[LOGINS].seal(f"token of {name}", at), logged_in=True))
        change.put(TURNS, StoredTurn("c/0", "c", 0, "i", 0.0, "m", "stop", sealed=login[TURNS].seal("[]", "c/0")))
        tree = StoredTree("t", "c", "a", "s", "f", 0.0, login[STATE_TREES].seal("{}", "t"))
        change.put(STATE_TREES, tree)
    await store.close()
    SecretStore(home).put("a-key", "a-value")
    return home


def opened_by(home: Path, secret: bytes) -> list[bool]:
    """Whether a key opens each sealed value of the store."""
    database = connect(str(home / "hub.db"), read_only=True)
    rows = [(kind, row.value) for kind in SEALED for row in documents.find(database, kind.collection, {})]
    opened = [kind.encryption(secret).open(row.sealed, kind.bound_to(row)) is not None for kind, row in rows]
    check = documents.get(database, SEALED_WITH, ID)
    assert verify(database, heads_of(home)).sound
    database.close()
    assert check is not None
    return [*opened, check.value.check == check_of(secret)]


async def test_t24_a_new_key_opens_everything_and_the_old_one_nothing(tmp_path: Path) -> None:
    async with ProtectedServer() as protected:
        docs = {"docs": ServerSettings(url=protected.url)}
        async with running_hub(tmp_path, docs, wait=False) as hub:
            await hub.state("docs", ServerState.ERROR)
            await log_in(hub)
            await hub.state("docs", ServerState.CONNECTED)
            key = await hub.new_key("ann")
            config, home = hub.hub_app.config, hub.hub_app.home
        SecretStore(home).put("a-key", "a-value")
        old = existing_secret(home)
        for _ in range(2):
            done = await rotate(config, home, ME)
            assert (done.sealed, done.secrets) == (1, 1)
        assert (home / "keys.secret").stat().st_mode & 0o077 == 0 or sys.platform == "win32"
        assert opened_by(home, existing_secret(home)) == [True, True]
        assert opened_by(home, old) == [False, False]
        assert SecretStore(home).get("a-key") == "a-value"
        async with running_hub(tmp_path, docs) as hub:
            assert text_of(await call(hub, key)) == "you are client-1", "the login and the agent's key hold"
            assert len((await hub.operate("audit.search", tool="secrets.rekey"))["entries"]) == 2


async def test_a_store_that_is_away_does_not_cost_the_next_key(home: Path) -> None:
    (home / "hub.db").rename(home / "moved.db")
    new = prepare_next(home)
    with pytest.raises(StoreError, match="is missing"):
        finish_rekeying(Config(), home)
    assert next_secret(home) == new
    (home / "moved.db").rename(home / "hub.db")
    finish_rekeying(Config(), home)
    assert not has_next(home), "nothing was sealed with it"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_t24_killed_at_any_step_everything_is_sealed_with_one_key(tmp_path: Path, home: Path) -> None:
    killed, outcomes = 0, set()
    while True:
        killed += 1
        copy = tmp_path / f"copy-{killed}"
        shutil.copytree(home, copy)
        old = existing_secret(copy)
        line = forking.command(str(HERE / "killed_rekeying.py"), str(copy), str(killed))
        done = await asyncio.to_thread(subprocess.run, line, capture_output=True, timeout=120)
        if done.returncode == 0:
            break
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
        assert SecretStore(copy).get("a-key") == "a-value", f"step {killed}: also before the next start"
        check_stored(str(copy / "hub.db"), Config(), copy)
        finish_rekeying(Config(), copy)
        assert not has_next(copy)
        now = existing_secret(copy)
        assert all(opened_by(copy, now)), f"step {killed}"
        assert SecretStore(copy).get("a-key") == "a-value", f"step {killed}"
        outcomes.add(now == old)
    assert all(opened_by(copy, existing_secret(copy)))
    assert outcomes == {True, False}, "some ended before the commit, some after it"


async def test_t24_a_hub_whose_key_is_lost_does_not_start_and_makes_no_new_one(home: Path) -> None:
    (home / "keys.secret").unlink()
    (home / "secrets.json").unlink()
    config = Config(hub=HubSettings(listen="127.0.0.1:0"))
    with pytest.raises(CannotStart, match="is lost") as refused:
        await serve(config, home, lambda ready: None)
    assert "interlock secrets rekey" in refused.value.hint
    assert not (home / "keys.secret").exists()
    with pytest.raises(StoreError, match="not the key"):
        await reseal(config, home, ME, os.urandom(32))
    done = await give_up(config, home, ME)
    assert (done.lost_logins, done.lost_values) == ((("docs", ""), ("mail", "")), 2)
    assert done.saved
    assert opened_by(home, existing_secret(home)) == [True]


async def test_the_old_key_is_enough_to_seal_everything_with_the_configured_one(home: Path) -> None:
    old, new = existing_secret(home), os.urandom(32)
    config = Config(hub=HubSettings(sealing_key=base64.b64encode(new).decode()))
    with pytest.raises(SealedElsewhere):
        check_stored(str(home / "hub.db"), config, home)
    with pytest.raises(StoreError, match="not the key"):
        await reseal(config, home, ME, os.urandom(32))
    assert all(opened_by(home, old))
    assert home_key_of_store(config, home) == old, "the home's key sealed it before"
    assert (await reseal(config, home, ME, old)).sealed == 4
    assert all(opened_by(home, new))
    assert SecretStore(home).get("a-key") == "a-value", "the home's own key seals the secrets, as before"
    check_stored(str(home / "hub.db"), config, home)
