"""Tools that were found, called and succeeded rise for queries like the one that found them, in this hub alone."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import Approvals, Hub, Timeouts
from interlock.discovery import words
from interlock.hub.tool_search.learning import LEARNED, MOST_OPEN, Learning
from interlock.store import Store

from .running_hub import RawClient, RunningHub, child, running_hub

HUB = Hub(budget=4_000, timeouts=Timeouts(start_s=30, discovery_s=20, tool_s=20), approvals=Approvals(hold_s=0))
QUERY = "export the ticket history"
SERVERS = {"many": child("many_server.py", "600")}


async def find(hub: RunningHub, query: str = QUERY) -> list[str]:
    """Names of what is found, after everything that is in the record was learned."""
    await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", {"query": "unrelated"})
    await hub.hub_app.search.learning.settled()
    answer = await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", {"query": query})
    return [tool["name"] for tool in answer["result"]["tools"]]


async def call(hub: RunningHub, tool: str, **arguments: Any) -> Any:
    return await RawClient(hub.url + "/mcp").modern("tools/call", {"name": tool, "arguments": arguments})


async def learned(hub: RunningHub, count: int) -> None:
    """The record is written a moment after a call; wait until it was learned from."""
    learning = hub.hub_app.search.learning
    async with asyncio.timeout(120):
        while len(learning.usage) < count:
            learning.look()
            await learning.settled()


async def test_a_tool_that_was_found_and_called_rises_until_it_is_forgotten(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        before = await find(hub)
        assert before[0] != before[-1]
        await call(hub, before[-1], name="x")
        await learned(hub, 1)
        assert (await find(hub))[0] == before[-1]
        kept = await hub.hub_app.store.get(LEARNED, "uses")
        assert kept is not None
        assert [use.tool for use in kept.value.uses] == [before[-1].removeprefix("many__")]
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        assert (await find(hub))[0] == before[-1], "it is kept over a restart"
        assert await hub.hub_app.search.learning.forget() == 1
        assert await find(hub) == before
        assert await hub.hub_app.store.get(LEARNED, "uses") is None


async def test_a_call_that_fails_or_was_not_found_teaches_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        before = await find(hub)
        refused = await call(hub, before[-1], wrong="argument")
        assert refused["result"]["isError"]
        await call(hub, "many__measure_tide_height", harbour="Kiel")
        await call(hub, before[1], name="x")
        await learned(hub, 1)
        assert [use.tool for use in hub.hub_app.search.learning.usage] == [before[1].removeprefix("many__")]


def test_searches_that_wait_for_their_outcome_hold_little_however_long_their_queries_are() -> None:
    def no_store() -> Store:
        raise AssertionError("nothing is read or kept")

    learning = Learning(no_store, lambda _, text: None)
    tracemalloc.start()
    try:
        for search in range(MOST_OPEN):
            learning.found("cursor", [f"term{search}of{n}" for n in range(1_024)], [("files", "read")])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4_000_000


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
