"""Two hubs on one database: a person's denial of a permission is not undone by an earlier approval that comes late."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from interlock.config.settings import Config, PermissionSettings, ServerSettings
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import ENTRIES
from interlock.hub.approvals.permissions import Permissions
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import VIEWS, ViewSeal
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.protocols.mgp.security import Trust
from interlock.store import Store, documents
from interlock.store.documents import Change, Changes

from .people import read_and_answer
from .running_hub import until

ADA, BOB = Principal("person:ada", "person"), Principal("person:bob", "person")
SHELL = "shell.execute"
CONFIG = Config(servers={"s": ServerSettings(command=("a",), permissions=PermissionSettings(policy="interactive"))})


class PermissionHub:
    """The permissions of one hub, which processes answers from its start on."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.inbox = Inbox(lambda: 600, seal=ViewSeal(bytes(32)))
        self.permissions = Permissions(
            self.inbox,
            lambda: CONFIG,
            lambda server: Trust.STANDARD,
            changed=lambda server: None,
            log=lambda server, text: None,
            record=lambda *_: None,
            record_entry=lambda *_: None,
        )

    async def process_answers(self) -> None:
        await self.permissions.start(self.store)
        await self.permissions.caught_up()

    @property
    def grant(self) -> str:
        return self.permissions.status("s", SHELL).grant


async def without_records(store: Store, changes: Changes, records: Sequence[object]) -> list[Change]:
    """Commit the changes: these hubs have no audit log."""
    return await store.commit(lambda database: documents.apply(database, changes), store.deliver)


@contextlib.asynccontextmanager
async def two_hubs(folder: Path) -> AsyncIterator[tuple[PermissionHub, PermissionHub]]:
    async with contextlib.AsyncExitStack() as stack:
        hubs = []
        for _ in range(2):
            store = await Store.open(folder / "hub.db", (DECISIONS, RULES, VIEWS, ENTRIES))
            stack.push_async_callback(store.close)
            hubs.append(PermissionHub(store))
            await hubs[-1].inbox.start(store)
            await store.mirror(ENTRIES)
            store.commit_records_with(partial(without_records, store))
        yield hubs[0], hubs[1]


@pytest.mark.parametrize("processed", [True, False], ids=["processed before", "not processed yet"])
async def test_t31_a_denial_is_not_undone_by_an_earlier_approval_that_another_hub_processes_late(
    tmp_path: Path, processed: bool
) -> None:
    async with two_hubs(tmp_path) as (here, there):
        await here.process_answers()
        await here.permissions.declare("s", [SHELL])
        if not processed:
            await here.permissions.close()
        (asked,) = here.inbox.all(only_open=True)
        await until(lambda: bool(there.inbox.all(only_open=True)))
        await read_and_answer(there.inbox, asked.id, "once", ADA)
        if processed:
            await until(lambda: here.grant == "approved")
        await here.permissions.put("s", SHELL, "denied", BOB)
        await there.process_answers()
        stored = await here.store.find(ENTRIES)
        assert [(entry.value.grant, entry.value.by) for entry in stored] == [("denied", BOB.id)]
        await there.permissions.close()


async def test_an_approval_that_two_hubs_process_at_once_is_stored_and_used_once(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        await here.process_answers()
        await there.process_answers()
        await here.permissions.declare("s", [SHELL])
        (asked,) = here.inbox.all(only_open=True)
        await until(lambda: bool(there.inbox.all(only_open=True)))
        await read_and_answer(there.inbox, asked.id, "once", ADA)
        for hub in (here, there):
            await until(lambda hub=hub: hub.grant == "approved")
            await until(lambda hub=hub: hub.inbox.get(asked.id).state is DecisionState.USED)
        (entry,) = await here.store.find(ENTRIES)
        assert entry.version == 1
        for hub in (here, there):
            await hub.permissions.close()
