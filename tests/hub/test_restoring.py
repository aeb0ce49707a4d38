"""Putting a backup back gives nobody back what they had used up, nor what was taken from them without saying so."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from interlock.hub.admin.backups import put_back
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit.record import RESTORED
from interlock.hub.audit.verify import verify
from interlock.hub.auth.keys import KEYS
from interlock.store import Store, StoreBusy, StoreError, documents
from interlock.store import records as rows
from interlock.store.connect import connect
from interlock.store.sqlite import Sqlite

from .people import read_and_answer
from .running_hub import RawClient, child, running_hub, text_of
from .test_decisions import ADA, ASK, asking_hub, echo, error_of
from .test_sealing_key import new_key


async def test_t32_an_approval_in_a_backup_is_not_good_a_second_time(tmp_path: Path) -> None:
    file = tmp_path / "approved.backup"
    async with asking_hub(tmp_path) as hub:
        key = await hub.new_key("careful")
        client = RawClient(hub.url + "/mcp", key)
        told = await client.modern("tools/call", echo("a"))
        await read_and_answer(hub.hub_app.inbox, error_of(told)["decision"], "once", ADA)
        await hub.hub_app.store.backup(file)
        assert text_of(await client.modern("tools/call", echo("a"))) == "a"
        config, home = hub.hub_app.config, hub.hub_app.home
    done = await put_back(config, home, file, ADA)
    assert (done.voided, done.sound) == (1, True)
    async with asking_hub(tmp_path) as hub:
        again = await RawClient(hub.url + "/mcp", key).modern("tools/call", echo("a"))
        assert error_of(again)["name"] == "APPROVAL_PENDING"
        states = [found.value.state for found in await hub.hub_app.store.find(DECISIONS)]
        assert DecisionState.APPROVED not in states


async def test_t32_killed_at_any_commit_a_restore_gives_back_no_approval_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "approved.backup"
    async with asking_hub(tmp_path) as hub:
        key = await hub.new_key("careful")
        told = await RawClient(hub.url + "/mcp", key).modern("tools/call", echo("a"))
        await read_and_answer(hub.hub_app.inbox, error_of(told)["decision"], "once", ADA)
        await hub.hub_app.store.backup(file)
        await hub.hub_app.keys.revoke("careful")
        config, home = hub.hub_app.config, hub.hub_app.home
    commit = Sqlite.commit
    for last in range(1, 9):
        left = [last]

        def counted(database: Sqlite, left: list[int] = left) -> None:
            commit(database)
            if "documents" in database.tables():
                left[0] -= 1
            if left[0] == 0:
                raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(Sqlite, "commit", counted)
            with contextlib.suppress(StoreError, KilledError):
                await put_back(config, home, file, ADA)
        database = connect(str(home / "hub.db"), read_only=True)
        held = [found.key for found in documents.find(database, KEYS, {})]
        states = [found.value.state for found in documents.find(database, DECISIONS, {})]
        recorded = rows.newest_first(database, rows.Search(event=RESTORED), 10)
        database.close()
        assert bool(held) == bool(recorded), f"after commit {last}: what came back is recorded"
        assert not (held and DecisionState.APPROVED in states), f"after commit {last}"


class KilledError(Exception):
    """The process ends here."""


async def test_a_database_that_a_hub_still_uses_is_left_alone(tmp_path: Path, postgres: str) -> None:
    from interlock.config.settings import HubSettings, TimeoutSettings

    file = tmp_path / "a.backup"
    settings = HubSettings(store=postgres, timeouts=TimeoutSettings(start_s=30))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=ASK) as hub:
        await hub.hub_app.store.backup(file)
        with pytest.raises(StoreBusy, match="connections to this database"):
            await put_back(hub.hub_app.config, tmp_path / "another home", file, ADA)
        assert hub.hub_app.node != "hub", "hubs that share a store have chains of their own"


async def test_two_hubs_share_a_store_and_each_has_a_chain_of_its_own(tmp_path: Path, postgres: str) -> None:
    from interlock.config.settings import HubSettings, TimeoutSettings

    settings = HubSettings(store=postgres, sealing_key=new_key(), timeouts=TimeoutSettings(start_s=30))
    one, two = tmp_path / "one", tmp_path / "two"
    busy = {"busy": child("busy_server.py")}
    async with running_hub(one, busy, hub=settings) as first, running_hub(two, busy, hub=settings) as second:
        for hub in (first, second):
            call = {"name": "busy__echo", "arguments": {"text": "a"}}
            assert text_of(await RawClient(hub.url + "/mcp", hub.key("ci")).modern("tools/call", call)) == "a"
        names = {first.hub_app.node, second.hub_app.node}
        assert len(names) == 2
    async with running_hub(one, busy, hub=settings) as first:
        assert first.hub_app.node in names, "a restart goes on with the same chain"
    database = connect(postgres, read_only=True)
    report = verify(database, {})
    assert (set(report.chains), report.findings) == (names, ())
    database.close()


async def test_another_name_begins_another_chain_and_the_old_one_still_verifies(tmp_path: Path) -> None:
    from interlock.config.settings import HubSettings, TimeoutSettings
    from interlock.hub.audit.heads import heads_of

    busy = {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, busy) as hub:
        assert hub.hub_app.node == "hub"
    async with running_hub(tmp_path, busy, hub=HubSettings(node="north", timeouts=TimeoutSettings(start_s=30))) as hub:
        home = hub.hub_app.home
        assert hub.hub_app.node == "north"
    store = await Store.open(home / "hub.db")
    report = await store.read(lambda database: verify(database, heads_of(home)))
    await store.close()
    assert (report.chains, report.findings) == (("hub", "north"), ())
