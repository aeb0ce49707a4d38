"""Tasks over restarts and lost servers, their bounds, and what is left when they end: nothing."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from interlock.client import Handlers
from interlock.config.settings import HubSettings, LimitSettings, TimeoutSettings
from interlock.hub.tasks import handler as task_handler
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault
from loop_clock import advance

from .running_hub import RawClient, RunningHub, child, running_hub, until
from .task_scene import DECLARED, FORMS, TIMEOUTS, Form, client, name, outcomes, served, text
from .task_server import Jobs


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_is_taken_up_after_a_restart_where_its_server_still_knows_it(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    async with served(form, jobs) as servers:
        async with running_hub(tmp_path, servers) as hub, client(hub, form, "ada") as ada:
            key = hub.key("ada")
            await hub.new_key("eve")
            task = await ada.start_tool("t__work", {"mark": "a"})
        await until(lambda: jobs.runs["a"] == 1)
        async with running_hub(tmp_path, servers) as hub:
            assert len(hub.hub_app.tasks.ledger) == 1
            async with client(hub, form, "eve") as eve:
                with pytest.raises(Fault, match="no such task"):
                    await eve.task(task.id).look()
            async with client(hub, form, "ada") as ada:
                again = ada.task(task.id)
                assert (await again.look()).status == "working"  # type: ignore[union-attr]
                jobs.go.set()
                assert text(await again.result()) == "a worked"
                assert text(await ada.task(task.id).result()) == "a worked"
            # The call itself had to be recorded as unknown; that it ended is told as what it is.
            found = await outcomes(hub)
            assert sorted(result for result, _ in found) == ["RECORDED", "UNKNOWN"]
    assert jobs.runs == {"a": 1}, "nothing is ever sent a second time"
    assert key


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_that_its_server_lost_is_unknown_and_stays_so(tmp_path: Path, form: Form) -> None:
    servers = {"t": child("task_server.py", era=form)}
    async with running_hub(tmp_path, servers) as hub, client(hub, form, "ada") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
    async with running_hub(tmp_path, servers) as hub, client(hub, form, "ada") as ada:
        again = ada.task(task.id)
        for _ in range(2):
            with pytest.raises(Fault) as lost:
                await again.look()
            assert lost.value.data["name"] == "OUTCOME_UNKNOWN"
            with pytest.raises(Fault) as lost:
                await again.cancel()
            assert lost.value.data["name"] == "OUTCOME_UNKNOWN"
        assert (await ada.call_tool("t__counted"))["structuredContent"] == {}
        assert [result for result, _ in await outcomes(hub)] == ["UNKNOWN"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_server_that_dies_with_its_task_is_told_of_truthfully(tmp_path: Path, form: Form) -> None:
    async with running_hub(tmp_path, {"t": child("task_server.py", era=form)}) as hub, client(hub, form) as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        waiting = asyncio.ensure_future(task.result())
        await until(lambda: hub.hub_app.tasks.running[task.id].checked > 0)
        await hub.operate("servers.restart", server="t")
        with pytest.raises(Fault) as lost:
            await asyncio.wait_for(waiting, 120)
        assert lost.value.data["name"] in ("OUTCOME_UNKNOWN", "SERVER_NOT_READY")
        await hub.state("t", ServerState.CONNECTED)
        with pytest.raises(Fault) as lost:
            await task.look()
        assert lost.value.data["name"] == "OUTCOME_UNKNOWN"
        assert [result for result, _ in await outcomes(hub)] == ["UNKNOWN"]


async def test_tasks_are_bounded_for_one_principal_and_in_all(tmp_path: Path, jobs: Jobs) -> None:
    settings = HubSettings(timeouts=TIMEOUTS, limits=LimitSettings(tasks=3, tasks_per_agent=2))
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers, hub=settings) as hub:
        async with client(hub, "legacy", "ada") as ada, client(hub, "legacy", "eve") as eve:
            for mark in ("1", "2"):
                await ada.start_tool("t__work", {"mark": mark})
            with pytest.raises(Fault, match="too many tasks"):
                await ada.start_tool("t__work", {"mark": "3"})
            await eve.start_tool("t__work", {"mark": "4"})
            with pytest.raises(Fault, match="too many tasks"):
                await eve.start_tool("t__work", {"mark": "5"})
            jobs.go.set()
            assert text(await ada.call_tool("t__work", {"mark": "6"})) == "6 worked"
    assert set(jobs.runs) == {"1", "2", "4", "6"}


async def test_where_no_more_tasks_are_kept_a_modern_call_is_simply_answered(tmp_path: Path, jobs: Jobs) -> None:
    settings = HubSettings(timeouts=TIMEOUTS, limits=LimitSettings(tasks_per_agent=1))
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers, hub=settings) as hub:
        async with client(hub, "modern") as ada:
            first = await ada.start_tool("t__work", {"mark": "1"})
            jobs.go.set()
            second = await ada.start_tool("t__work", {"mark": "2"})
            assert second.id == ""
            assert text(await second.result()) == "2 worked"
            assert text(await first.result()) == "1 worked"
            await expire(hub)
            third = await ada.start_tool("t__work", {"mark": "3"})
            assert third.id, "the call that became no task took no place"


async def expire(hub: RunningHub) -> None:
    """Let the time of all tasks be over."""
    ledger = hub.hub_app.tasks.ledger
    now = ledger.clock()
    ledger.clock = lambda: now + 86_400_001
    await hub.hub_app.tasks.sweep()


def free_places(hub: RunningHub, principal_name: str) -> int:
    """How many tasks a principal may still have."""
    ledger, places = hub.hub_app.tasks.ledger, 0
    while ledger.reserve(principal_name):
        places += 1
    for _ in range(places):
        ledger.release(principal_name)
    return places


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_is_forgotten_when_its_time_is_over(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    settings = HubSettings(timeouts=TIMEOUTS, limits=LimitSettings(task_s=60))
    async with served(form, jobs) as servers, running_hub(tmp_path, servers, hub=settings) as hub:
        async with client(hub, form) as ada:
            task = await ada.start_tool("t__work", {"mark": "a"}, progress=lambda *_: None)
            assert task.state is not None
            assert task.state.ttl_ms == 60_000
            assert len(hub.hub_app.tasks.progress) == (form == "legacy")
            ledger = hub.hub_app.tasks.ledger
            now = ledger.clock()
            ledger.clock = lambda: now + 60_001
            with pytest.raises(Fault, match="no such task"):
                await task.look()
            await hub.hub_app.tasks.sweep()
            assert len(ledger) == 0
            assert not hub.hub_app.tasks.running
            assert len(hub.hub_app.tasks.progress) == 0
            assert hub.hub_app.upstreams["t"].tasks == 0
            assert await outcomes(hub) == [("UNKNOWN", "the task expired")]


async def test_a_client_that_goes_before_it_has_its_tasks_id_leaves_nothing_behind(tmp_path: Path, jobs: Jobs) -> None:
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers) as hub:
        tracker = hub.hub_app.tasks
        kept, goes = asyncio.Event(), asyncio.Event()
        add = tracker.ledger.add

        async def slowly(task: Any) -> None:
            kept.set()
            await goes.wait()
            await add(task)

        tracker.ledger.add = slowly  # type: ignore[method-assign]
        raw = RawClient(hub.url + "/mcp")
        call = {"name": "t__work", "arguments": {"mark": "a"}, "_meta": DECLARED}
        calling = asyncio.ensure_future(raw.modern("tools/call", call))
        await asyncio.wait_for(kept.wait(), 120)
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        await until(lambda: not hub.listener.connections)
        goes.set()
        await until(lambda: jobs.ended["cancelled a"] == 1)
        await until(lambda: len(tracker.ledger) == 0)
        assert not tracker.running
        assert [result for result, _ in await outcomes(hub)] == ["FAILURE"]


async def test_a_task_s_process_is_not_closed_for_being_idle_before_its_result_was_fetched(
    tmp_path: Path, jobs: Jobs
) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=120, tool_s=120, idle_s=600))
    servers = {"t": child("task_server.py", era="legacy", start="on-demand")}
    async with running_hub(tmp_path, servers, hub=settings, wait=False) as hub:
        await hub.operate("servers.restart", server="t")
        await hub.state("t", ServerState.CONNECTED)
        async with client(hub, "legacy", handlers=Handlers(elicit_form=name)) as ada:
            task = await ada.start_tool("t__greet")
            await ada.call_tool("t__release")
            pids = hub.hub_app.upstreams["t"].pid
            asking = ada.connection
            assert asking is not None
        # The session is over, and its private process with it, were it not for the task.
        now = asyncio.get_running_loop().time() + 3600
        hub.hub_app.upstreams["t"].reap_private_connections(now)
        advance(601)
        async with client(hub, "legacy", handlers=Handlers(elicit_form=name)) as ada:
            await ada.list_tools()
            assert hub.hub_app.upstreams["t"].pid == pids
            assert text(await ada.task(task.id).result()) == "Who and Who else and And"
        hub.hub_app.upstreams["t"].reap_private_connections(now)
        await until(lambda: hub.hub_app.upstreams["t"].pool.private.open_connections() == [])
        await until(lambda: not hub.hub_app.upstreams["t"].tasks and not hub.hub_app.upstreams["t"].open_calls)
        advance(601)
        await hub.state("t", ServerState.DISCONNECTED)


async def test_how_much_is_asked_about_tasks_at_once_is_bounded(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_handler, "MAX_OPEN_REQUESTS", 2)
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "legacy") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        about = {"taskId": task.id}
        waiting = [asyncio.ensure_future(ada.connection.request("tasks/result", about)) for _ in range(2)]
        await until(lambda: hub.hub_app.hub.tasks.open_requests == 2)
        with pytest.raises(Fault, match="about tasks are open"):
            await task.look()
        async with client(hub, "legacy", "eve") as eve:
            with pytest.raises(Fault, match="no such task"):
                await eve.task(task.id).look()
        jobs.go.set()
        assert all(b"a worked" in result for result in await asyncio.gather(*waiting))
        assert (await task.look()).status == "completed"  # type: ignore[union-attr]


@pytest.mark.parametrize("form", FORMS)
async def test_many_tasks_end_each_in_its_way_and_nothing_is_left_of_them(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    third, names = 40, ("ada", "bob", "eve")
    before = asyncio.all_tasks()

    async with served(form, jobs) as servers:
        async with running_hub(tmp_path, servers) as hub, contextlib.AsyncExitStack() as stack:
            callers = {who: await stack.enter_async_context(client(hub, form, who)) for who in names}

            async def begin(number: int) -> tuple[str, str]:
                who = names[number % 3]
                return who, (await callers[who].start_tool("t__work", {"mark": str(number)})).id

            begun = await asyncio.gather(*(begin(number) for number in range(3 * third)))
            cancelled, finished, expired = (begun[start::3] for start in range(3))
            await asyncio.gather(*(callers[who].task(id_).cancel() for who, id_ in cancelled))
            await until(lambda: sum(jobs.ended.values()) == third)
            assert hub.hub_app.hub.open_calls == 0
        async with running_hub(tmp_path, servers) as hub, contextlib.AsyncExitStack() as stack:
            callers = {who: await stack.enter_async_context(client(hub, form, who)) for who in names}
            jobs.go.set()
            results = await asyncio.gather(*(callers[who].task(id_).result() for who, id_ in finished))
            assert {text(result) for result in results} == {f"{number} worked" for number in range(1, 3 * third, 3)}
            for who, id_ in cancelled:
                with pytest.raises(Fault, match="cancelled"):
                    await callers[who].task(id_).result()
            tracker = hub.hub_app.tasks
            await expire(hub)
            for who, id_ in expired:
                with pytest.raises(Fault, match="no such task"):
                    await callers[who].task(id_).look()
            assert (len(tracker.ledger), tracker.running, len(tracker.progress)) == (0, {}, 0)
            assert tracker.queries.located == 0
            assert {free_places(hub, f"agent:{who}") for who in names} == {
                hub.hub_app.config.hub.limits.tasks_per_agent
            }
            assert free_places(hub, "agent:other") == hub.hub_app.config.hub.limits.tasks_per_agent
            assert hub.hub_app.upstreams["t"].tasks == 0
            assert hub.hub_app.hub.tasks.open_requests == 0
        async with running_hub(tmp_path, servers) as hub:
            assert len(hub.hub_app.tasks.ledger) == 0
    assert jobs.runs == {str(number): 1 for number in range(3 * third)}
    assert asyncio.all_tasks() <= before
