"""`Client` and tasks: begun, looked after, answered, fetched and cancelled, in both forms and over every transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from servers.task_server import task_server

import forking
from interlock.client import Client, Handlers
from interlock.client.dial import Target
from interlock.transports.stdio.process import Command
from interlock.wire.errors import Fault

HERE = Path(__file__).parent
ERAS = ["modern", "legacy"]
WAYS = ["memory", "http", "stdio"]


@asynccontextmanager
async def served(way: str) -> AsyncIterator[Target]:
    if way == "memory":
        yield task_server()
    elif way == "http":
        async with task_server().http() as address:
            yield address.url
    else:
        source = str(HERE.parents[1] / "src")
        yield Command(forking.command(str(HERE / "servers" / "task_server.py")), {"PYTHONPATH": source})


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


async def name_them(params: dict[str, object]) -> dict[str, object]:
    asked.append(params)
    return {"action": "accept", "content": {"name": f"number {len(asked)}"}}


asked: list[dict[str, object]] = []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_task_is_begun_followed_answered_and_fetched(era: Any, way: str) -> None:
    asked.clear()
    heard: list[tuple[str, Any]] = []
    seen: list[float] = []
    async with (
        served(way) as target,
        Client(
            target,
            era=era,
            handlers=Handlers(elicit_form=name_them),
            notification_handler=lambda method, params: heard.append((method, params)),
        ) as client,
    ):
        counting = await client.start_tool("count", {"to": 3}, progress=lambda done, *_: seen.append(done))
        assert counting.status == "working"
        assert counting.state is not None
        assert counting.state.poll_ms == 20
        await counting.watch()
        assert text(await counting.result()) == "counted to 3"
        assert counting.status == "completed"
        assert text(await client.task(counting.id).result()) == "counted to 3"
        greeting = await client.start_tool("greet")
        assert text(await greeting.result()) == "number 1 and number 2"
        assert len(asked) == 2
        at_once = await client.call_tool("count", {"to": 1})
        assert text(at_once) == "counted to 1"
    told = "notifications/tasks" if era == "modern" else "notifications/tasks/status"
    states = [params["status"] for method, params in heard if method == told and params["taskId"] == counting.id]
    assert states[-1:] == ["completed"] or era == "modern"
    # In the stateless era tasks have no progress, only words.
    assert seen == ([] if era == "modern" else [1, 2, 3])


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_that_failed_or_was_cancelled_says_so(era: Any) -> None:
    async with Client(task_server(), era=era) as client:
        hanging = await client.start_tool("hang")
        waiting = asyncio.ensure_future(hanging.result())
        await hanging.cancel()
        with pytest.raises(Fault, match="cancelled"):
            await asyncio.wait_for(waiting, 120)
        assert (await client.task(hanging.id).look()).status == "cancelled"  # type: ignore[union-attr]
        assert (await (await client.start_tool("fail", {"how": "tool"})).result())["isError"] is True
        with pytest.raises(Fault, match="a request's way"):
            await (await client.start_tool("fail", {"how": "request"})).result()
        with pytest.raises(Fault, match="no such task"):
            await client.task("never was").look()


async def test_a_server_of_the_stateless_era_may_answer_at_once() -> None:
    async with Client(task_server(), era="modern") as client:
        task = await client.start_tool("quick")
        assert (task.id, task.status) == ("", "completed")
        assert text(await task.result()) == "at once"
        with pytest.raises(Fault, match="lists no tasks"):
            await client.list_tasks()


async def test_a_watched_task_of_the_stateless_era_is_told_of() -> None:
    done = asyncio.Event()

    def heard(method: str, params: Any) -> None:
        if method == "notifications/tasks" and params["status"] == "completed":
            assert text(params["result"]) == "counted to 200"
            done.set()

    async with Client(task_server(), era="modern", notification_handler=heard) as client:
        task = await client.start_tool("count", {"to": 200})
        await task.watch()
        await asyncio.wait_for(done.wait(), 120)


async def test_a_tool_that_is_only_a_task_is_no_plain_call() -> None:
    for era in ("modern", "legacy"):
        async with Client(task_server(), era=era, handlers=Handlers(elicit_form=name_them)) as client:  # type: ignore[arg-type]
            with pytest.raises(Fault):
                await client.call_tool("greet")
