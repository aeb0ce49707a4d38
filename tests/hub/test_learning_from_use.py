"""Tools that were found, called and succeeded rise for queries like the one that found them, in this hub alone."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.discovery import words
from interlock.discovery.usage import MAX_IN_ALL, MAX_USES, RememberedUse
from interlock.hub.audit.record import EXECUTED
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.tool_search import learning as learning_module
from interlock.hub.tool_search.learning import LEARNED, MAX_OPEN, MAX_OPEN_IN_ALL, WITHIN_US, LearnedUses, UsageLearning
from interlock.store import Store
from interlock.store.connect import connect

from .running_hub import RawClient, RunningHub, child, running_hub
from .test_journal import entries_soon

LOCAL = "agent:local"
HUB = HubSettings(
    budget=4_000, timeouts=TimeoutSettings(start_s=30, discovery_s=20, tool_s=20), approvals=ApprovalSettings(hold_s=0)
)
QUERY = "export the ticket history"
SERVERS = {"many": child("many_server.py", "600")}


async def find(hub: RunningHub, query: str = QUERY, agent: str | None = None) -> list[str]:
    """Names of the tools that an agent, or a caller without a key, finds."""
    client = RawClient(hub.url + "/mcp", hub.key(agent) if agent else None)
    answer = await client.modern("mgp/tools/discover", {"query": query})
    return [tool["name"] for tool in answer["result"]["tools"]]


async def call(hub: RunningHub, tool: str, agent: str | None = None, **arguments: Any) -> Any:
    client = RawClient(hub.url + "/mcp", hub.key(agent) if agent else None)
    return await client.modern("tools/call", {"name": tool, "arguments": arguments})


async def learned(hub: RunningHub, count: int) -> None:
    """The record is written a moment after a call; wait until it was learned from."""
    learning = hub.hub_app.search.learning
    async with asyncio.timeout(120):
        while len(learning.usage) < count:
            learning.look()
            await learning.settled()


async def damage(hub: RunningHub, home: Path) -> None:
    """Have a row of an agent that cannot be read."""
    async with hub.hub_app.store.transaction() as change:
        change.put(LEARNED, LearnedUses("agent:eve", ()))
    database = connect(str(home / "hub.db"))
    database.execute("UPDATE documents SET body = '7' WHERE collection = 'learned_uses' AND key = 'agent:eve'")
    database.close()


async def test_a_tool_that_was_found_and_called_rises_until_it_is_forgotten(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        before = await find(hub)
        assert before[0] != before[-1]
        await call(hub, before[-1], name="x")
        await learned(hub, 1)
        assert (await find(hub))[0] == before[-1]
        kept = await hub.hub_app.store.get(LEARNED, LOCAL)
        assert kept is not None
        assert [use.tool for use in kept.value.uses] == [before[-1].removeprefix("many__")]
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        assert (await find(hub))[0] == before[-1], "the first search after a restart uses it"
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        assert await hub.hub_app.search.learning.forget() == 1, "also as the first thing after a restart"
        assert await hub.hub_app.search.learning.forget() == 0
        assert await find(hub) == before
        assert await hub.hub_app.store.get(LEARNED, LOCAL) is None


async def test_a_person_sees_what_the_last_call_taught(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        for number in range(1, 4):
            tool = (await find(hub))[0]
            await call(hub, tool, name="x")
            await entries_soon(hub, number, event=EXECUTED["tool"])
        shown = await hub.operate("find", query=QUERY)
        [reasons] = [found["why"] for found in shown["tools"] if found["name"] == tool]
        assert any("called 3 times" in reason for reason in reasons), reasons


async def test_a_call_that_fails_or_was_not_found_teaches_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        before = await find(hub)
        refused = await call(hub, before[-1], wrong="argument")
        assert refused["result"]["isError"]
        await call(hub, "many__measure_tide_height", harbour="Kiel")
        await call(hub, before[1], name="x")
        await learned(hub, 1)
        assert [use.tool for use in hub.hub_app.search.learning.usage.of(LOCAL)] == [before[1].removeprefix("many__")]


async def test_one_agent_neither_ranks_tools_for_another_nor_drives_out_what_it_searched(tmp_path: Path) -> None:
    agents = {"ada": AgentSettings(), "bob": AgentSettings()}
    async with running_hub(tmp_path, SERVERS, hub=HUB, agents=agents) as hub:
        learning = hub.hub_app.search.learning
        before = await find(hub, agent="ada")
        for _ in range(MAX_OPEN + 1):
            await find(hub, agent="bob")
        await call(hub, before[-1], agent="bob", name="x")
        await learned(hub, 1)
        assert (await find(hub, agent="bob"))[0] == before[-1]
        assert await find(hub, agent="ada") == before
        await call(hub, before[1], agent="ada", name="x")
        await learned(hub, 2)
        assert [use.tool for use in learning.usage.of("agent:ada")] == [before[1].removeprefix("many__")]
        assert (await find(hub, agent="ada"))[0] == before[1]


async def test_calls_of_another_kind_of_principal_with_the_same_name_are_no_outcome(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        learning = hub.hub_app.search.learning
        tools = await find(hub)
        identity = ("many", tools[1].removeprefix("many__"))
        learning.found("person:local", ["export"], [identity])
        await call(hub, tools[1], name="x")
        await learned(hub, 1)
        assert len(learning.usage.of(LOCAL)) == 1
        assert not learning.usage.of("person:local")


async def test_a_call_teaches_the_last_search_alone_that_found_its_tool(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        learning = hub.hub_app.search.learning
        tools = await find(hub)
        called, other = (("many", tool.removeprefix("many__")) for tool in tools[:2])
        for words_of, found in (("colour tag", called), ("add card", called), ("move card", other)):
            learning.found(LOCAL, words_of.split(), [found])
        await call(hub, tools[0], name="x")
        await learned(hub, 1)
        learning.look()
        await learning.settled()
        [use] = learning.usage.of(LOCAL)
        assert (use.tool, set(use.terms)) == (called[1], {"add", "card"})


async def test_a_call_counts_only_within_ten_minutes_after_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        learning = hub.hub_app.search.learning
        late, early, soon, *_ = await find(hub)
        await learning.forget()
        now = time_ns()
        for tool, ago_us in ((late, WITHIN_US), (early, -WITHIN_US), (soon, 0)):
            monkeypatch.setattr(learning_module, "time_ns", lambda ago_us=ago_us: now - 1000 * ago_us)
            learning.found(LOCAL, ["export"], [("many", tool.removeprefix("many__"))])
        monkeypatch.undo()
        for tool in (late, early, soon):
            await call(hub, tool, name="x")
        await learned(hub, 1)
        assert [use.tool for use in learning.usage.of(LOCAL)] == [soon.removeprefix("many__")]


async def test_uses_of_an_earlier_version_that_name_no_principal_are_forgotten(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        async with hub.hub_app.store.transaction() as change:
            change.put(LEARNED, LearnedUses("uses", (RememberedUse(("export",), "many", "x"),)))
        await find(hub)
        await hub.hub_app.search.learning.settled()
        assert await hub.hub_app.store.keys(LEARNED) == []
        assert not len(hub.hub_app.search.learning.usage)


async def test_a_damaged_row_is_left_out_and_the_others_still_teach(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        found = await find(hub)
        await call(hub, found[-1], name="x")
        await learned(hub, 1)
        await damage(hub, tmp_path / "home")
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        await find(hub)
        await learned(hub, 1)
        assert (await find(hub))[0] == found[-1]
        assert "agent:eve is left out" in str(hub.hub_app.logs.tail("hub", 100))
        assert await hub.hub_app.search.learning.forget() == 1
        assert await hub.hub_app.store.keys(LEARNED) == ["agent:eve"]


async def test_more_than_is_kept_in_all_is_dropped_from_the_store_too(tmp_path: Path) -> None:
    names = [f"agent:{number}" for number in range(MAX_IN_ALL // MAX_USES + 1)]
    uses = tuple(RememberedUse((f"term{number}",), "many", "x") for number in range(MAX_USES))
    store = await Store.open(tmp_path / "interlock.db", COLLECTIONS)
    try:
        async with store.transaction() as change:
            for principal_name in names:
                change.put(LEARNED, LearnedUses(principal_name, uses))
        learning = UsageLearning(lambda: store, lambda _, text: None)
        await learning.ready()
        await learning.settled()
        kept = await store.find(LEARNED)
    finally:
        await store.close()
    assert len(learning.usage) == MAX_IN_ALL
    assert {each.key: each.value.uses for each in kept} == {
        principal_name: learning.usage.of(principal_name) for principal_name in names
    }


def test_searches_that_wait_for_their_outcome_hold_little_however_long_their_queries_are() -> None:
    def no_store() -> Store:
        raise AssertionError("nothing is read or kept")

    learning = UsageLearning(no_store, lambda _, text: None)
    tracemalloc.start()
    try:
        for search in range(MAX_OPEN_IN_ALL + 20):
            learning.found(f"agent:{search % 20}", [f"term{search}of{n}" for n in range(512)], [("files", "read")])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8_000_000


@pytest.mark.parametrize("method", ["mgp/tools/discover", "mgp/tools/request"])
async def test_no_query_is_split_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    plain, threads = words.split, []

    def split(text: str, *, wholes: bool = True) -> list[str]:
        threads.append(threading.get_ident())
        return plain(text, wholes=wholes)

    text = "漢字" * (32_000 if method.endswith("discover") else 3_000)
    async with running_hub(tmp_path, {"many": child("many_server.py", "20")}, hub=HUB) as hub:
        monkeypatch.setattr(words, "split", split)
        asked = {"query": text} if method.endswith("discover") else {"context": text}
        answer = await RawClient(hub.url + "/mcp").modern(method, asked)
    assert "result" in answer
    assert threads
    assert threading.get_ident() not in threads
