"""Two inboxes on one database: decisions at the same time, at one hub or at two, are neither lost nor undone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import msgspec
import pytest

from interlock.hub.approvals.decision import DECISIONS, ApprovalRequest
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.rules import RULES, Rule
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.auth.principals import Principal
from interlock.store import Store
from interlock.wire.errors import Fault

from .people import read_and_answer
from .running_hub import until

ADA = Principal("person:ada", "person")


def question(arguments: str, tool: str = "write") -> ApprovalRequest:
    return ApprovalRequest(
        kind="tool_call",
        asker="cursor",
        asker_kind="agent",
        server="files",
        name=tool,
        shown=f"files__{tool}",
        text=f"cursor calls files__{tool}",
        rule="a rule",
        fingerprint="f",
        arguments_hash=arguments,
        summary=arguments,
    )


class Hubs(msgspec.Struct):
    """Two inboxes, each with a store of its own on the same database."""

    here: Inbox
    there: Inbox
    store: Store

    async def asked(self, *questions: ApprovalRequest) -> list[str]:
        """The ids of requests that both inboxes know."""
        ids = [(await self.here.ask(each)).id for each in questions]
        await until(lambda: {*ids} <= {one.id for one in self.there.all(only_open=True)})
        return ids

    async def calls_in_rules(self) -> list[str]:
        return sorted(call for found in await self.store.find(RULES) for call in found.value.calls)


@contextlib.asynccontextmanager
async def two_hubs(folder: Path) -> AsyncIterator[Hubs]:
    async with contextlib.AsyncExitStack() as stack:
        inboxes = []
        for _ in range(2):
            store = await Store.open(folder / "hub.db", (DECISIONS, RULES))
            stack.push_async_callback(store.close)
            inboxes.append(Inbox(lambda: 600, seal=ViewSeal(bytes(32))))
            await inboxes[-1].start(store)
        yield Hubs(*inboxes, store)


@pytest.mark.parametrize("at", ["one hub", "two hubs"])
async def test_t32_every_call_that_was_always_approved_at_once_is_in_the_rule(tmp_path: Path, at: str) -> None:
    async with two_hubs(tmp_path) as hubs:
        calls = [f"call {number}" for number in range(8)]
        ids = await hubs.asked(*(question(call) for call in calls))
        inboxes = (hubs.here, hubs.here if at == "one hub" else hubs.there)
        await asyncio.gather(
            *(read_and_answer(inboxes[place % 2], id_, "always", ADA) for place, id_ in enumerate(ids))
        )
        assert await hubs.calls_in_rules() == calls


@pytest.mark.parametrize("at", ["one hub", "two hubs"])
async def test_t32_a_revoked_rule_does_not_come_back_with_an_answer_at_the_same_time(tmp_path: Path, at: str) -> None:
    async with two_hubs(tmp_path) as hubs:
        tools, other = [f"tool {number}" for number in range(6)], hubs.here if at == "one hub" else hubs.there
        for id_ in await hubs.asked(*(question(f"old {tool}", tool) for tool in tools)):
            await read_and_answer(hubs.here, id_, "always", ADA)
        answered = await hubs.asked(*(question(f"new {tool}", tool) for tool in tools))
        await until(lambda: len(other.rules()) == len(tools))
        for id_ in answered[3:]:
            await read_and_answer(other, id_, "once", ADA)
        revoking = [hubs.here.revoke_rule(rule.id, ADA) for rule in hubs.here.rules()]
        learning: list[Awaitable[object]] = [read_and_answer(other, id_, "always", ADA) for id_ in answered[:3]]
        learning += [other.make_rule(id_, ADA) for id_ in answered[3:]]
        await asyncio.gather(*revoking[::2])  # The other hub may not know of it yet.
        await asyncio.gather(*learning, *revoking[1::2])
        assert {*await hubs.calls_in_rules()} <= {f"new {tool}" for tool in tools}


async def test_of_two_revocations_of_a_rule_one_finds_none(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as hubs:
        (id_,) = await hubs.asked(question("x"))
        await read_and_answer(hubs.here, id_, "always", ADA)
        (rule,) = hubs.here.rules()
        await until(lambda: hubs.there.rules() == [rule])
        inboxes = (hubs.here, hubs.there)
        results = await asyncio.gather(*(each.revoke_rule(rule.id, ADA) for each in inboxes), return_exceptions=True)
        assert {type(result) for result in results} == {Fault, Rule}


async def test_requests_that_are_joined_take_no_place_from_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.hub.approvals.inbox.MAX_OPEN", 4)
    async with two_hubs(tmp_path) as hubs:
        known = [question("one"), question("two")]
        await hubs.here.ask_all(known)
        assert len(await hubs.here.ask_all([*known, question("three")])) == 3


async def test_a_stored_decision_has_its_request_under_the_name_of_earlier_versions(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as hubs:
        made = await hubs.here.ask(question("one"))
        assert '"question":{' in DECISIONS.encode(made)


async def test_t32_two_calls_on_one_matter_at_two_hubs_make_one_request(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as hubs:
        for number in range(8):
            asked = [inbox.ask(question(f"call {number}")) for inbox in (hubs.here, hubs.there, hubs.here, hubs.there)]
            assert len({decision.id for decision in await asyncio.gather(*asked)}) == 1
        stored = await hubs.store.find(DECISIONS)
        assert len({found.value.request.arguments_hash for found in stored}) == len(stored) == 8
        one = stored[0].value
        await read_and_answer(hubs.here, one.id, "once", ADA)
        await until(lambda: hubs.there.get(one.id) == hubs.here.get(one.id))
        used = await asyncio.gather(hubs.here.use(one.id), hubs.there.use(one.id))
        assert sorted(used) == [False, True], "the approval is still for one call"


async def test_t18_two_hubs_that_ask_about_the_same_changed_tools_at_once_make_one_request_each(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as hubs:
        for number in range(8):
            changed = [question("", f"tool {number} {place}") for place in range(3)]
            here, there = await asyncio.gather(hubs.here.ask_all(changed), hubs.there.ask_all(changed))
            assert [one.id for one in here] == [one.id for one in there]
        assert len(await hubs.store.find(DECISIONS)) == 24
