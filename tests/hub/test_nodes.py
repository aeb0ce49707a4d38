"""Two hubs on one PostgreSQL database: what one of them is told holds for the other at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, Config, HubSettings, TimeoutSettings
from interlock.events import EventFilter
from interlock.events.types import RegistrationDecided
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import Foundation
from interlock.store import StoreError

from .people import read_and_answer
from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until
from .test_registration import ASKED, SERVES
from .test_registration import Agent as RegisteringAgent

pytestmark = pytest.mark.slow

ADA = Principal("person:ada", "person")
ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}


@contextlib.asynccontextmanager
async def nodes(tmp_path: Path, postgres: str) -> AsyncIterator[tuple[RunningHub, RunningHub]]:
    """Two hubs with the same secret for their keys, as hubs of one installation have it."""
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    servers = {"busy": child("busy_server.py")}
    homes = []
    for name in ("north", "south"):
        home = tmp_path / name
        (home / "home").mkdir(parents=True)
        if homes:
            (home / "home" / "keys.secret").write_bytes((homes[0] / "home" / "keys.secret").read_bytes())
            (home / "home" / "keys.secret").chmod(0o600)
        else:
            async with running_hub(home, {}):
                pass
        homes.append(home)

    def settings(name: str) -> HubSettings:
        return HubSettings(
            store=postgres, node=name, timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0)
        )

    async with (
        running_hub(homes[0], servers, hub=settings("north"), agents=agents) as north,
        running_hub(homes[1], servers, hub=settings("south"), agents=agents) as south,
    ):
        yield north, south


async def test_t31_what_is_revoked_on_one_hub_is_gone_on_every_other_also_in_an_open_session(
    tmp_path: Path, postgres: str
) -> None:
    async with nodes(tmp_path, postgres) as (north, south):
        made = await north.operate("keys.create", ADA, agent="ci")
        client = RawClient(south.url + "/mcp", str(made["key"]))

        async def enters() -> bool:
            return (await client.post(b"{}"))[0] != 401

        await until(enters)
        await client.initialize()
        assert text_of(await client.legacy("tools/call", ECHO)) == "x"
        await north.deny("ci", "busy", "echo")

        async def refused() -> bool:
            answer: Any = await client.legacy("tools/call", ECHO)
            return "error" in answer and answer["error"]["data"]["name"] == "TOOL_NOT_FOUND"

        await until(refused)
        await north.operate("keys.revoke", ADA, agent="ci")

        async def out() -> bool:
            return not await enters()

        await until(out)


async def test_t32_an_approval_given_on_one_hub_is_good_once_on_all_of_them(tmp_path: Path, postgres: str) -> None:
    async with nodes(tmp_path, postgres) as (north, south):
        key = str((await north.operate("keys.create", ADA, agent="careful"))["key"])
        there, here = RawClient(south.url + "/mcp", key), RawClient(north.url + "/mcp", key)

        async def asked() -> bool:
            answer: Any = await there.modern("tools/call", ECHO)
            return "APPROVAL_PENDING" in str(answer)

        await until(asked)
        (decision,) = south.hub_app.inbox.all(only_open=True)

        async def seen() -> bool:
            return [one.id for one in north.hub_app.inbox.all(only_open=True)] == [decision.id]

        await until(seen)
        await read_and_answer(north.hub_app.inbox, decision.id, "once", ADA)

        async def heard() -> bool:
            return not south.hub_app.inbox.all(only_open=True)

        await until(heard)
        answers = await asyncio.gather(*(client.modern("tools/call", ECHO) for client in (here, there) * 4))
        made = [answer for answer in answers if "APPROVAL_PENDING" not in str(answer)]
        assert [text_of(answer) for answer in made] == ["x"]


@pytest.mark.skipif(not SERVES, reason="no backend serves on this machine")
async def test_a_registration_on_one_hub_is_approved_on_another_and_runs_and_ends_on_both(
    tmp_path: Path, postgres: str
) -> None:
    async with nodes(tmp_path, postgres) as (north, south):
        agents = [RegisteringAgent(hub, "maker") for hub in (north, south)]
        asked = (await agents[0].ask("register", **{**ASKED, "id": "dynamic.mean"}))["result"]
        await until(lambda: bool(south.hub_app.inbox.all(only_open=True)))
        with north.hub_app.bus.subscribe(EventFilter.of(RegistrationDecided)) as decided:
            await read_and_answer(south.hub_app.inbox, asked["decision"], "once", ADA)
            event = await anext(aiter(decided))
        assert isinstance(event, RegistrationDecided)
        assert (event.id, event.status) == ("dynamic.mean", "approved"), "the other hub tells its own clients"
        for hub in (north, south):
            await until(lambda hub=hub: hub.hub_app.upstreams.get("dynamic-mean") is not None)
        assert (await agents[1].ask("deregister", id="dynamic.mean"))["result"]["deregistered"] is True
        for hub in (north, south):
            await until(lambda hub=hub: hub.hub_app.upstreams.get("dynamic-mean") is None)


async def test_the_policy_version_is_equal_on_every_hub_and_the_catalogs_generation_is_each_ones_own(
    tmp_path: Path, postgres: str
) -> None:
    async with nodes(tmp_path, postgres) as (north, south):

        async def equal() -> bool:
            return north.hub_app.policy_version.number == south.hub_app.policy_version.number

        for change in (
            north.allow("a", "busy"),
            south.operate("keys.create", ADA, agent="ci"),
            north.operate("keys.revoke", ADA, agent="ci"),
        ):
            before = north.hub_app.policy_version.number
            await change
            await until(equal)
            assert north.hub_app.policy_version.number > before
        version, generation = south.hub_app.policy_version.number, south.hub_app.catalog.generation
        grow = {"name": "busy__grow", "arguments": {"name": "fresh"}}
        seen = north.hub_app.catalog.generation
        await RawClient(north.url + "/mcp").modern("tools/call", grow)

        async def grown() -> bool:
            return north.hub_app.catalog.generation > seen

        await until(grown)
        assert north.hub_app.policy_version.number == south.hub_app.policy_version.number == version
        assert south.hub_app.catalog.generation == generation


async def test_a_second_hub_with_the_name_of_a_node_does_not_start(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.store.store.CLAIM_S", 0.5)
    config = Config(hub=HubSettings(store=postgres, node="north"))
    first, second = Foundation(config, tmp_path / "one"), Foundation(config, tmp_path / "two")
    await first.open()
    try:
        with pytest.raises(StoreError, match="another hub is the node 'north' of this store: process"):
            await second.open()
    finally:
        await first.recorder.close()
        await first.store.close()
