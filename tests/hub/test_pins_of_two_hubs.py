"""Rug pull (T18) at two hubs on one database: a definition that one of them pinned holds for the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from interlock.hub.approvals.decision import DECISIONS, Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.pinned_fingerprints import MIN_KEPT
from interlock.hub.approvals.pins import PINS, Pins
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import VIEWS, ViewSeal
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.offer import Offer
from interlock.protocols.mgp.permissions import Risk
from interlock.store import Store

from .people import read_and_answer
from .running_hub import until

ADA = Principal("person:ada", "person")


class PinningHub:
    """The pins of one hub. Its server is listed again when the hub says so."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.inbox = Inbox(lambda: 600, seal=ViewSeal(bytes(32)))
        self.pins = Pins(
            self.inbox, lambda: "guard", self._keep, self._relist, lambda tool: Risk.MODERATE, lambda server, text: None
        )
        self.relists = 0
        self.shown: set[str] = set()
        """The names of the tools that passed."""

    async def start(self) -> None:
        await self.inbox.start(self.store)
        self.pins.start(self.store)

    async def list(self, **descriptions: str) -> set[str]:
        """The tools that pass of those that the server has now."""
        tools = [{"name": name, "description": text, "inputSchema": {}} for name, text in descriptions.items()]
        await self.pins.take(make_offer("s", [json.dumps(tool).encode() for tool in tools]))
        return self.shown

    async def open_request(self) -> Decision:
        await until(lambda: len(self.inbox.all(only_open=True)) == 1)
        return self.inbox.all(only_open=True)[0]

    async def _keep(self, offer: Offer) -> None:
        self.shown = set(offer.tools)

    def _relist(self, server: str) -> None:
        self.relists += 1


@contextlib.asynccontextmanager
async def two_hubs(folder: Path) -> AsyncIterator[tuple[PinningHub, PinningHub]]:
    async with contextlib.AsyncExitStack() as stack:
        hubs = []
        for _ in range(2):
            store = await Store.open(folder / "hub.db", (DECISIONS, RULES, VIEWS, PINS))
            stack.push_async_callback(store.close)
            hubs.append(PinningHub(store))
            await hubs[-1].start()
        yield hubs[0], hubs[1]


async def test_t18_the_first_pin_of_a_tool_holds_at_every_hub(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        assert await there.list(old="It is there.") == {"old"}
        assert await here.list(old="It is there.", tool="Reads.") == {"old", "tool"}
        assert await there.list(old="It is there.", tool="Reads and sends.") == {"old"}
        (asked,) = there.inbox.all(only_open=True)
        assert asked.request.name == "tool"
        assert "Reads." in asked.request.summary


async def test_t18_of_two_definitions_that_are_seen_at_once_one_is_pinned(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        names = [f"tool{number}" for number in range(300)]
        one, other = await asyncio.gather(
            here.list(**dict.fromkeys(names, "Reads.")), there.list(**dict.fromkeys(names, "Reads and sends."))
        )
        assert one | other == {*names}
        assert not one & other


async def test_t18_an_approved_change_holds_at_every_hub_and_is_asked_about_once(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        for hub in (here, there):
            assert await hub.list(tool="Reads.") == {"tool"}
        assert await here.list(tool="Reads twice.") == set()
        asked = await there.open_request()
        assert await there.list(tool="Reads twice.") == set()
        await read_and_answer(here.inbox, asked.id, "once", ADA)
        await until(lambda: there.relists == 1)
        shown = await asyncio.gather(here.list(tool="Reads twice."), there.list(tool="Reads twice."))
        assert shown == [{"tool"}, {"tool"}]
        for hub in (here, there):
            await until(lambda hub=hub: hub.inbox.get(asked.id).state is DecisionState.USED)
            assert not hub.inbox.all(only_open=True)


async def test_t18_a_hub_lists_again_when_another_has_used_the_approval(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        await here.list(tool="Reads.")
        assert await there.list(tool="Reads twice.") == set()
        asked = await here.open_request()
        await read_and_answer(here.inbox, asked.id, "once", ADA)
        assert await here.list(tool="Reads twice.") == {"tool"}
        assert here.relists == 1, "its own use of the approval is no news"
        await until(lambda: there.inbox.get(asked.id).state is DecisionState.USED and there.relists > 0)
        assert await there.list(tool="Reads twice.") == {"tool"}


async def test_t18_a_long_list_reads_its_pins_again_only_after_a_pin_has_changed(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (here, there):
        tools = {f"tool{number}": "Reads." for number in range(MIN_KEPT)}
        assert await here.list(**tools) == {*tools}
        assert await here.list(**tools) == {*tools}
        # No reader could use these rows, so a list that passes has not read them.
        await corrupt_pins(here.store, "body || ' '")
        assert await here.list(**tools) == {*tools}
        assert await here.list(**tools | {"tool7": "Reads and sends."}) == {*tools} - {"tool7"}
        await corrupt_pins(here.store, "rtrim(body)")
        (asked,) = here.inbox.all(only_open=True)
        await read_and_answer(here.inbox, asked.id, "once", ADA)
        await until(lambda: there.relists == 1)
        assert await there.list(**tools | {"tool7": "Reads and sends."}) == {*tools}
        assert await here.list(**tools) == {*tools} - {"tool7"}, "the other hub has pinned another definition"


async def corrupt_pins(store: Store, body: str) -> None:
    """Change the stored pins behind the store's back, all but the one that is compared with a new definition."""
    where = f"collection = '{PINS.name}' AND body NOT LIKE '%\"tool7\"%'"
    await store.commit(lambda database: database.execute(f"UPDATE documents SET body = {body} WHERE {where}"))
