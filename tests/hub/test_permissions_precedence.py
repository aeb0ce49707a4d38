"""The decision on a permission and its report, against an exhaustive table."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pytest

from interlock.config.settings import Config, HubSettings, PermissionSettings, ServerSettings
from interlock.config.value_types import PermissionPolicy
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import ENTRIES, PermissionEntry, PermissionStatus, entry_id, place_of
from interlock.hub.approvals.permissions import Permissions as Room
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.audit.entries import event_record
from interlock.hub.upstreams.permission_exchange import outcome
from interlock.protocols.mgp.security import Trust
from interlock.store import Collection, Store
from waiting import until

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SHELL = "shell.execute"
Said = Literal[
    "nothing", "approved", "denied", "approved, over", "denied, over", "approved elsewhere", "denied elsewhere"
]


class PermissionSetup:
    """The permissions of one server, with everything about them to be set."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        self.config = Config()
        self.store = store
        self.room = Room(
            inbox,
            lambda: self.config,
            lambda server: Trust.STANDARD,
            changed=lambda server: None,
            log=lambda server, text: None,
            record=lambda *_: None,
            record_entry=lambda *_: event_record("PERMISSION_GRANTED"),
            now=lambda: NOW,
        )

    def set(self, mode: Any, **settings: Any) -> None:
        """The operator's configuration."""
        server = ServerSettings(command=("a",), permissions=PermissionSettings(**settings))
        self.config = Config(hub=HubSettings(mode=mode), servers={"s": server})

    async def say(self, said: Said) -> None:
        """A person's decision."""
        grant, _, more = said.partition(" ")
        async with self.store.transaction() as change:
            if said == "nothing":
                change.delete(ENTRIES, entry_id("s", SHELL))
                return
            place = place_of(self.config.servers["s"] if more != "elsewhere" else ServerSettings(command=("b",)))
            end = NOW - timedelta(seconds=1) if grant.endswith(",") else NOW + timedelta(days=1)
            word: Any = grant.rstrip(",")
            change.put(ENTRIES, PermissionEntry(entry_id("s", SHELL), "s", SHELL, word, "person:ada", NOW, place, end))


@pytest.fixture
async def permission_setup(tmp_path: Path) -> AsyncIterator[PermissionSetup]:
    store = await Store.open(tmp_path / "hub.db", (DECISIONS, RULES, ENTRIES), backups=tmp_path)
    inbox = Inbox(lambda: 600, seal=ViewSeal(bytes(32)))
    await inbox.start(store)
    made = PermissionSetup(store, inbox)
    await made.room.start(store)
    yield made
    await made.room.close()
    await store.close()


def expected(policy: str, deny: bool, approve: bool, said: Said, mode: str) -> str:
    """The rule, told another way."""
    if mode == "observe":
        return "approved"
    if deny or said in ("denied", "denied elsewhere"):
        return "denied"
    if (said == "approved" and policy != "config_only") or approve:
        return "approved"
    return {"interactive": "deferred", "auto_approve": "approved"}.get(policy, "denied")


async def test_who_decides_is_the_same_for_every_combination(permission_setup: PermissionSetup) -> None:
    policies = get_args(PermissionPolicy)
    for said in get_args(Said):
        permission_setup.set("guard")
        await permission_setup.say(said)
        for mode, policy, deny, approve in itertools.product(("guard", "observe"), policies, (0, 1), (0, 1)):
            permission_setup.set(mode, policy=policy, deny=("shell",) * deny, approve=(SHELL,) * approve)
            standing = permission_setup.room.status("s", SHELL)
            wanted = expected(policy, bool(deny), bool(approve), said, mode)
            assert standing.grant == wanted, (said, mode, policy, deny, approve, standing)
            assert standing.rule


async def test_a_name_that_is_no_permission_is_never_granted(permission_setup: PermissionSetup) -> None:
    for mode, policy in itertools.product(("guard", "observe"), get_args(PermissionPolicy)):
        permission_setup.set(mode, policy=policy)
        standing = permission_setup.room.status("s", "everything")
        assert (standing.grant, standing.known) == ("denied", False)


def test_a_server_is_told_the_first_end_and_everyone_who_approved() -> None:
    soon, late = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    told = outcome(
        "perm-1",
        [
            PermissionStatus("a.b.c", "approved", "", "person:ada", "person", late),
            PermissionStatus("a.b.d", "approved", "", "person:bob", "person", soon),
            PermissionStatus("a.b.e", "approved", "", "person:ada", "person"),
            PermissionStatus("a.b.f", "denied", "", "person:eve", "person", NOW),
            PermissionStatus("a.b.g", "deferred", ""),
        ],
    )
    assert told.grants == {
        "a.b.c": "approved",
        "a.b.d": "approved",
        "a.b.e": "approved",
        "a.b.f": "denied",
        "a.b.g": "deferred",
    }
    assert (told.approved_by, told.expires_at) == ("person:ada, person:bob", soon)


def test_nobody_approved_what_nobody_approved() -> None:
    told = outcome("perm-1", [PermissionStatus("a.b.c", "denied", "", "person:eve", "person")])
    assert (told.approved_by, told.expires_at) == (None, None)


async def test_what_was_decided_and_cannot_be_read_is_no_yes(permission_setup: PermissionSetup, tmp_path: Path) -> None:
    permission_setup.set("guard", policy="auto_approve")
    await permission_setup.say("approved")
    assert permission_setup.room.status("s", SHELL).grant == "approved"

    class OfALaterVersion(msgspec.Struct):
        id: str

    later = Collection(ENTRIES.name, OfALaterVersion, key="id")
    store = await Store.open(tmp_path / "hub.db", (later,), backups=tmp_path)
    async with store.transaction() as change:
        change.put(later, OfALaterVersion(entry_id("s", SHELL)))
    await store.close()
    await until(lambda: permission_setup.room.status("s", SHELL).grant == "denied")
