"""Tasks through the hub, in the two straight pairs: begun, owned, followed, answered, cancelled, kept and forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from interlock.client import Client, Handlers
from interlock.config.settings import Hub, Limits, Server, Timeouts
from interlock.hub.audit.search import Search, search
from interlock.hub.tasks import handler as task_handler
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mcp.tasks import EXTENSION, RELATED
from interlock.server import TaskLimits
from interlock.wire.errors import Fault

from .mgp_script import MgpScript, tool
from .modern_client import ALL, CAPABILITIES
from .running_hub import RawClient, RunningHub, child, running_hub, until
from .task_server import Jobs, task_server

Form = Literal["legacy", "modern"]
FORMS: list[Form] = ["legacy", "modern"]
DECLARED = {CAPABILITIES: {**ALL, "extensions": {EXTENSION: {}}}}
TIMEOUTS = Timeouts(start_s=30, discovery_s=10, tool_s=20)


async def name(params: dict[str, object]) -> dict[str, object]:
    return {"action": "accept", "content": {"name": str(params["message"]).rstrip("?")}}


@contextlib.asynccontextmanager
async def served(form: Form, jobs: Jobs, limits: TaskLimits | None = None) -> AsyncIterator[dict[str, Server]]:
    """The server in this process, over HTTP, in one era."""
    async with task_server(jobs, limits).http() as address:
        yield {"t": Server(url=address.url, era=form)}


def client(hub: RunningHub, form: Form, who: str = "", **more: Any) -> Client:
    """A client of the hub, in one era."""
    headers = {"authorization": f"Bearer {hub.key(who)}"} if who else {}
    return Client(hub.url + "/mcp", era=form, headers=headers, **more)


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


async def outcomes(hub: RunningHub, tool: str = "work") -> list[tuple[str, str]]:
    """The audit entries of a tool's calls: how each ended, and why."""
    await hub.hub_app.recorder.flushed()
    found = await hub.hub_app.store.read(lambda database: search(database, Search(name=tool), 100))
    return [(entry.record.result, entry.record.reason) for entry in found if entry.record.result != "PENDING"]


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.mark.parametrize("form", FORMS)
async def test_texts_about_a_task_are_masked_where_its_results_are(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    secret = "ghp_" + "a1B2" * 9
    told: list[Any] = []
    seen: list[Any] = []
    async with served(form, jobs) as servers:
        masked = {"t": msgspec.structs.replace(servers["t"], scan_results="mask")}
        async with (
            running_hub(tmp_path, masked) as hub,
            client(hub, form, "ada", heard=lambda *m: told.append(m)) as ada,
        ):
            task = await ada.start_tool("t__work", {"mark": secret}, progress=lambda *at: seen.append(at))
            await task.watch()
            while (state := await task.look()) is None or not (state.message or "").endswith("is half way"):
                await asyncio.sleep(0.01)
            told.append(state.message)
            if form == "legacy":
                told += await ada.list_tasks()
                await until(lambda: bool(seen))
                assert "is half way" in str(seen)
            jobs.go.set()
            told.append(await task.result())
    assert secret not in str((told, seen))


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_task_goes_through_the_hub_from_its_begin_to_its_result(
    tmp_path: Path, jobs: Jobs, form: Form, transport: str
) -> None:
    told: list[tuple[str, Any]] = []
    seen: list[tuple[float, float | None, str | None]] = []
    async with contextlib.AsyncExitStack() as stack:
        servers = await stack.enter_async_context(served(form, jobs))
        if transport == "stdio":
            servers = {"t": child("task_server.py", era=form)}
        hub = await stack.enter_async_context(running_hub(tmp_path, servers))
        ada = await stack.enter_async_context(
            client(hub, form, "ada", handlers=Handlers(elicit_form=name), heard=lambda *heard: told.append(heard))
        )
        task = await ada.start_tool("t__work", {"mark": "a"}, ttl_ms=60_000, progress=lambda *at: seen.append(at))
        assert task.status == "working"
        assert task.state is not None
        assert (task.state.poll_ms, task.state.ttl_ms) == (20, 60_000 if form == "legacy" else 3_600_000)
        await task.watch()
        while (await task.look()).message != "a is half way":  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        await ada.call_tool("t__release")
        assert text(await task.result()) == "a worked"
        assert text(await ada.task(task.id).result()) == "a worked"
        greeting = await ada.start_tool("t__greet")
        assert text(await greeting.result()) == "Who and Who else and And"
        assert hub.hub_app.hub.open_calls == 0
    if form == "legacy":
        assert [at[0] for at in seen] == [1, 2]
    notice = "notifications/tasks" if form == "modern" else "notifications/tasks/status"
    mine = [params for method, params in told if method == notice and params["taskId"] == task.id]
    assert mine[-1]["status"] == "completed"
    if form == "modern":
        assert text(mine[-1]["result"]) == "a worked"


@pytest.mark.parametrize("form", FORMS)
async def test_a_server_s_own_id_never_leaves_the_hub_and_is_worth_nothing_there(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, form) as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        (kept,) = hub.hub_app.tasks.ledger.of("agent:local")
        assert kept.id == task.id
        assert kept.upstream_id != task.id
        with pytest.raises(Fault, match="no such task"):
            await ada.task(kept.upstream_id).look()


@pytest.mark.parametrize("form", FORMS)
async def test_another_principals_task_is_answered_exactly_like_one_that_never_was(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    methods = ["tasks/get", "tasks/cancel", "tasks/update" if form == "modern" else "tasks/result"]
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, form, "ada") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        eve = RawClient(hub.url + "/mcp", hub.key("eve"))
        if form == "legacy":
            await eve.initialize(ALL)

        async def ask(method: str, id: str) -> Any:
            params = {"taskId": id, "inputResponses": {}}
            if form == "legacy":
                return await eve.legacy(method, params)
            return await eve.modern(method, {**params, "_meta": DECLARED}, **{"mcp-name": id})

        for method in methods:
            theirs, never = await ask(method, task.id), await ask(method, "never-was")
            assert theirs == never
            assert theirs["error"]["code"] == -32602
        if form == "legacy":
            assert (await eve.legacy("tasks/list"))["result"] == {"tasks": []}
            assert [each["taskId"] for each in await ada.list_tasks()] == [task.id]
        assert (await task.look()).status == "working"  # type: ignore[union-attr]
        assert jobs.ended["cancelled a"] == 0


async def test_a_stream_is_told_of_nobody_elses_tasks(tmp_path: Path, jobs: Jobs) -> None:
    async with (
        served("modern", jobs) as servers,
        running_hub(tmp_path, servers) as hub,
        client(hub, "modern", "ada") as ada,
    ):
        task = await ada.start_tool("t__work", {"mark": "a"})
        eve = RawClient(hub.url + "/mcp", hub.key("eve"))
        asked = {"notifications": {"taskIds": [task.id]}, "_meta": DECLARED}
        listening = asyncio.ensure_future(eve.modern("subscriptions/listen", asked))
        await until(lambda: len(hub.hub_app.hub.clients.streams) == 1)
        (stream,) = hub.hub_app.hub.clients.streams
        await until(lambda: stream._acknowledged)
        assert stream._followed == []
        jobs.go.set()
        assert text(await task.result()) == "a worked"
        listening.cancel()
        undeclared = await eve.modern("subscriptions/listen", {"notifications": {"taskIds": [task.id]}})
        assert undeclared["error"]["code"] == -32021


@pytest.mark.parametrize("form", FORMS)
async def test_t31_nothing_more_is_told_of_a_task_whose_tool_was_taken_back(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    told: dict[str, list[Any]] = {"ada": [], "bob": []}
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub:
        async with (
            client(hub, form, "ada", heard=lambda *said: told["ada"].append(said)) as ada,
            client(hub, form, "bob", heard=lambda *said: told["bob"].append(said)) as bob,
        ):
            for who in (ada, bob):
                await (await who.start_tool("t__work", {"mark": "a"})).watch()
            await hub.deny("ada", "t")
            jobs.go.set()
            await until(lambda: any(said.get("status") == "completed" for _, said in told["bob"]))
            await until(lambda: not hub.hub_app.hub.open_calls)
    # That it is being worked on was told before, and may still have been on its way.
    assert {said["status"] for method, said in told["ada"] if "/tasks" in method} <= {"working"}


async def test_sessions_hear_of_their_own_tasks_alone(tmp_path: Path, jobs: Jobs) -> None:
    heard: dict[str, list[Any]] = {"ada": [], "eve": []}
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub:
        async with (
            client(hub, "legacy", "ada", heard=lambda *said: heard["ada"].append(said)) as ada,
            client(hub, "legacy", "eve", heard=lambda *said: heard["eve"].append(said)) as eve,
        ):
            first = await ada.start_tool("t__work", {"mark": "a"}, progress=lambda *_: None)
            second = await eve.start_tool("t__work", {"mark": "e"})
            jobs.go.set()
            await asyncio.gather(first.result(), second.result())
            await until(lambda: all(any(p.get("status") == "completed" for _, p in said) for said in heard.values()))
    for who, task in (("ada", first), ("eve", second)):
        assert {params["taskId"] for method, params in heard[who] if "tasks" in method} == {task.id}
        assert not any("progress" in method for method, _ in heard["eve"])


@pytest.mark.parametrize("form", FORMS)
async def test_cancelling_reaches_the_server_and_is_recorded(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, form) as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        await until(lambda: jobs.runs["a"] == 1)
        assert await outcomes(hub) == []
        await task.cancel()
        await until(lambda: jobs.ended["cancelled a"] == 1)
        with pytest.raises(Fault, match="cancelled"):
            await task.result()
        assert await outcomes(hub) == [("FAILURE", "as a task")]
        if form == "legacy":
            with pytest.raises(Fault, match="cannot be cancelled"):
                await task.cancel()
        else:
            await task.cancel()


@pytest.mark.parametrize("form", FORMS)
async def test_the_outcome_is_recorded_once_when_the_task_ends_and_not_when_it_begins(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, form) as ada:
        good = await ada.start_tool("t__work", {"mark": "a"})
        bad = await ada.start_tool("t__work", {"mark": "b", "fail": "tool"})
        worse = await ada.start_tool("t__work", {"mark": "c", "fail": "request"})
        assert await outcomes(hub) == []
        jobs.go.set()
        assert text(await good.result()) == "a worked"
        assert text(await bad.result()) == "b did not work"
        with pytest.raises(Fault, match="c cannot be"):
            await worse.result()
        for task in (good, bad):
            await task.look()
            await ada.task(task.id).result()
        plain = await ada.call_tool("t__work", {"mark": "d"})
        assert text(plain) == "d worked"
        found = await outcomes(hub)
        assert sorted(found) == [("FAILURE", "as a task")] * 2 + [("SUCCESS", ""), ("SUCCESS", "as a task")]
        entries = await hub.hub_app.store.read(lambda database: search(database, Search(name="work"), 100))
        codes = [entry.record.outcome.code for entry in entries if entry.record.outcome is not None]
        # Only the stateless era says with a task what its error was.
        assert sorted(codes) == ([-32602, 0, 0, 0] if form == "modern" else [0, 0, 0, 0])


async def test_a_task_that_nobody_asks_for_is_looked_at_by_the_hub(tmp_path: Path, jobs: Jobs) -> None:
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "modern") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        jobs.go.set()
        tracker = hub.hub_app.tasks
        live = tracker._live[task.id]
        await tracker.sweep()
        assert live.state.status == "working", "it was just begun"
        live.checked = float("-inf")
        await tracker.sweep()
        assert live.state.status == "completed"
        assert await outcomes(hub) == [("SUCCESS", "as a task")]
        assert text(await task.result()) == "a worked"


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
        await until(lambda: hub.hub_app.tasks._live[task.id].checked > 0)
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
    settings = Hub(timeouts=TIMEOUTS, limits=Limits(tasks=3, tasks_per_agent=2))
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
    settings = Hub(timeouts=TIMEOUTS, limits=Limits(tasks_per_agent=1))
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers, hub=settings) as hub:
        async with client(hub, "modern") as ada:
            first = await ada.start_tool("t__work", {"mark": "1"})
            jobs.go.set()
            second = await ada.start_tool("t__work", {"mark": "2"})
            assert second.id == ""
            assert text(await second.result()) == "2 worked"
            assert text(await first.result()) == "1 worked"
        assert not hub.hub_app.tasks.ledger._reserved


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_is_forgotten_when_its_time_is_over(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    settings = Hub(timeouts=TIMEOUTS, limits=Limits(task_s=60))
    async with served(form, jobs) as servers, running_hub(tmp_path, servers, hub=settings) as hub:
        async with client(hub, form) as ada:
            task = await ada.start_tool("t__work", {"mark": "a"})
            assert task.state is not None
            assert task.state.ttl_ms == 60_000
            ledger = hub.hub_app.tasks.ledger
            now = ledger.clock()
            ledger.clock = lambda: now + 60_001
            with pytest.raises(Fault, match="no such task"):
                await task.look()
            await hub.hub_app.tasks.sweep()
            assert len(ledger) == 0
            assert not hub.hub_app.tasks._live
            assert hub.hub_app.upstreams["t"].tasks == 0
            assert await outcomes(hub) == [("UNKNOWN", "the task expired")]


@pytest.mark.parametrize("form", FORMS)
async def test_what_was_taken_back_is_taken_back_for_tasks_too(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, form, "ada") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        await hub.deny("ada", "t", "work")
        with pytest.raises(Fault, match="no such task"):
            await task.look()
        with pytest.raises(Fault):
            await ada.start_tool("t__work", {"mark": "b"})
        await hub.take("ada", "t", "work")
        assert (await task.look()).status == "working"  # type: ignore[union-attr]
        # That grants came and went is in the record, too.
        blocked = [result for result, _ in await outcomes(hub) if result != "RECORDED"]
        assert blocked == ["BLOCKED"]
    assert jobs.runs == {"a": 1}


@pytest.mark.parametrize("form", FORMS)
async def test_the_result_of_a_task_is_finished_as_any_result_is(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with task_server(jobs).http() as address:
        servers = {"t": Server(url=address.url, era=form, max_result_tokens=500)}
        async with running_hub(tmp_path, servers) as hub, client(hub, form) as ada:
            result = await (await ada.start_tool("t__big")).result()
            encoded = json.dumps(result)
            assert "interlock://t/text://one" in encoded
            assert "x" * 100 in encoded
            assert "x" * 5000 not in encoded
            assert "The rest of the result" in encoded


async def test_tasks_are_offered_where_they_work_and_never_across_the_eras(tmp_path: Path, jobs: Jobs) -> None:
    async with task_server(jobs).http() as old, task_server(jobs).http() as new:
        servers = {"o": Server(url=old.url, era="legacy"), "n": Server(url=new.url, era="modern")}
        async with running_hub(tmp_path, servers) as hub:

            async def offered(view: str, form: Form) -> bool:
                async with Client(f"{hub.url}{view}", era=form) as client:
                    peer = client.connection.peer
                return peer.offers("tasks") if form == "legacy" else peer.offers("extensions", EXTENSION) is not False

            assert await offered("/mcp", "legacy")
            assert await offered("/servers/o/mcp", "legacy")
            assert not await offered("/servers/n/mcp", "legacy")
            async with Client(hub.url + "/servers/o/mcp", era="modern") as there:
                assert not there.connection.peer.offers("extensions")
            async with Client(hub.url + "/servers/n/mcp", era="modern") as there:
                assert there.connection.peer.offers("extensions")
            jobs.go.set()
            async with client(hub, "legacy") as ada:
                listed = {tool["name"]: tool.get("execution") for tool in await ada.list_tools()}
                assert listed["o__work"] == {"taskSupport": "optional"}
                assert listed["n__work"] is None
                with pytest.raises(Fault) as refused:
                    await ada.start_tool("n__work", {"mark": "x"})
                assert refused.value.foreign_code == -32601
            async with client(hub, "modern") as bob:
                crossed = await bob.start_tool("o__work", {"mark": "y"})
                assert crossed.id == ""
                assert text(await crossed.result()) == "y worked"
                straight = await bob.start_tool("n__work", {"mark": "z"})
                assert straight.id
            before = RawClient(hub.url + "/mcp")
            opened = await before.initialize(version="2025-06-18")
            assert "tasks" not in opened["result"]["capabilities"]
            called = await before.legacy("tools/call", {"name": "o__work", "arguments": {"mark": "w"}, "task": {}})
            assert text(called["result"]) == "w worked"
    assert jobs.runs == {"y": 1, "z": 1, "w": 1}


async def test_a_modern_client_may_still_send_the_older_task_member_and_gets_no_task_of_an_old_server(
    tmp_path: Path, jobs: Jobs
) -> None:
    jobs.go.set()
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub:
        raw = RawClient(hub.url + "/mcp")
        for task in ({"ttl": 1000}, "nonsense"):
            answer = await raw.modern("tools/call", {"name": "t__work", "arguments": {"mark": "a"}, "task": task})
            assert text(answer["result"]) == "a worked"
        assert len(hub.hub_app.tasks.ledger) == 0


@pytest.mark.parametrize("form", FORMS)
async def test_only_calls_of_tools_become_tasks(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub:
        raw = RawClient(hub.url + "/mcp")
        asked = {"uri": "interlock://t/text://one", "task": {}, "_meta": DECLARED if form == "modern" else {}}
        if form == "legacy":
            await raw.initialize()
        answer = await (raw.modern if form == "modern" else raw.legacy)("resources/read", asked)
        assert answer["result"]["contents"][0]["text"] == "1"
        assert not hub.hub_app.tasks.ledger._reserved


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
        await asyncio.sleep(0.1)
        goes.set()
        await until(lambda: jobs.ended["cancelled a"] == 1)
        await until(lambda: len(tracker.ledger) == 0)
        assert not tracker._live
        assert [result for result, _ in await outcomes(hub)] == ["FAILURE"]


async def test_a_task_s_process_is_not_closed_for_being_idle_before_its_result_was_fetched(
    tmp_path: Path, jobs: Jobs
) -> None:
    settings = Hub(timeouts=Timeouts(start_s=30, discovery_s=10, tool_s=20, idle_s=0.2))
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
        await asyncio.sleep(0.6)
        assert hub.hub_app.upstreams["t"].pid == pids
        async with client(hub, "legacy", handlers=Handlers(elicit_form=name)) as ada:
            assert text(await ada.task(task.id).result()) == "Who and Who else and And"
        hub.hub_app.upstreams["t"].reap_private_connections(now)
        await until(lambda: hub.hub_app.upstreams["t"].pool.private.open_connections() == [])
        await hub.state("t", ServerState.DISCONNECTED)


async def test_how_much_is_asked_about_tasks_at_once_is_bounded(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_handler, "MAX_OPEN_REQUESTS", 2)
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "legacy") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        about = {"taskId": task.id}
        waiting = [asyncio.ensure_future(ada.connection.request("tasks/result", about)) for _ in range(2)]
        await until(lambda: hub.hub_app.hub.tasks._open_requests["agent:local"] == 2)
        with pytest.raises(Fault, match="about tasks are open"):
            await task.look()
        async with client(hub, "legacy", "eve") as eve:
            with pytest.raises(Fault, match="no such task"):
                await eve.task(task.id).look()
        jobs.go.set()
        assert all(b"a worked" in result for result in await asyncio.gather(*waiting))
        assert (await task.look()).status == "completed"  # type: ignore[union-attr]


async def test_a_list_of_tasks_has_pages(tmp_path: Path, jobs: Jobs) -> None:
    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "legacy") as ada:
        made = {(await ada.start_tool("t__work", {"mark": str(number)})).id for number in range(105)}
        assert {task["taskId"] for task in await ada.list_tasks()} == made
        raw = RawClient(hub.url + "/mcp")
        await raw.initialize()
        page = (await raw.legacy("tasks/list"))["result"]
        assert len(page["tasks"]) == 100
        wrong = await raw.legacy("tasks/list", {"cursor": "made up"})
        assert wrong["error"]["code"] == -32602


async def test_the_mark_of_a_task_is_rewritten_in_what_it_asks_and_in_its_result(tmp_path: Path, jobs: Jobs) -> None:
    asked: list[Any] = []

    async def keep(params: dict[str, object]) -> dict[str, object]:
        asked.append(params)
        return {"action": "decline"}

    async with served("legacy", jobs) as servers, running_hub(tmp_path, servers) as hub:
        async with client(hub, "legacy", handlers=Handlers(elicit_form=keep)) as ada:
            task = await ada.start_tool("t__greet")
            result: Any = await task.result()
    assert [params["_meta"][RELATED] for params in asked] == [{"taskId": task.id}] * 3
    assert result["_meta"][RELATED] == {"taskId": task.id}


@pytest.mark.parametrize("clock", ["runs", "noon"])
@pytest.mark.parametrize("ends", [True, False])
async def test_an_id_that_a_server_uses_again_leads_nobody_to_another_principals_task(
    tmp_path: Path, ends: bool, clock: str
) -> None:
    async with running_hub(tmp_path, {"n": child("numbering_server.py", clock, era="legacy")}) as hub:
        async with client(hub, "legacy", "ada") as ada, client(hub, "legacy", "eve") as eve:
            first = await ada.start_tool("n__note", {"text": "of ada"})
            if ends:
                await hub.operate("servers.restart", server="n")
                await hub.state("n", ServerState.CONNECTED)
            second = await eve.start_tool("n__note", {"text": "of eve", "forget": True})
            kept = [
                task.upstream_id for owner in ("agent:ada", "agent:eve") for task in hub.hub_app.tasks.ledger.of(owner)
            ]
            assert kept == ["1", "1"]
            for ask in (first.look, first.cancel, first.result):
                with pytest.raises(Fault) as lost:
                    await ask()
                assert lost.value.data["name"] == "OUTCOME_UNKNOWN"
            assert (await second.look()).status == "working"  # type: ignore[union-attr]
            finished = await eve.connection.request("tasks/result", {"taskId": second.id})
            assert b"of eve" in finished


async def test_an_id_that_a_server_used_again_before_anyone_asked_is_found_out_by_its_age(tmp_path: Path) -> None:
    servers = {"n": child("numbering_server.py", era="legacy")}
    async with running_hub(tmp_path, servers) as hub, client(hub, "legacy", "ada") as ada:
        task = await ada.start_tool("n__note", {"text": "of ada"})
    async with running_hub(tmp_path, servers) as hub, client(hub, "legacy", "ada") as ada:
        # Somebody else at the same server, of whom this hub knows nothing.
        line = await hub.hub_app.upstreams["n"].open_connection(None)
        await line.connection.request("tools/call", {"name": "note", "arguments": {"text": "of eve"}, "task": {}})
        for ask in (ada.task(task.id).result, ada.task(task.id).cancel):
            with pytest.raises(Fault) as lost:
                await ask()
            assert lost.value.data["name"] == "OUTCOME_UNKNOWN"
        left = await line.connection.request("tasks/get", {"taskId": "1"})
        assert b"working" in left


async def test_equal_ids_in_processes_of_their_own_are_not_mixed_up(tmp_path: Path) -> None:
    heard: dict[str, list[Any]] = {"ada": [], "eve": []}
    handlers = Handlers(elicit_form=name)
    async with running_hub(tmp_path, {"n": child("numbering_server.py", era="legacy")}) as hub:
        async with (
            client(hub, "legacy", "ada", handlers=handlers, heard=lambda *said: heard["ada"].append(said)) as ada,
            client(hub, "legacy", "eve", handlers=handlers, heard=lambda *said: heard["eve"].append(said)) as eve,
        ):
            first = await ada.start_tool("n__note", {"text": "of ada"})
            second = await eve.start_tool("n__note", {"text": "of eve"})
            finished = await ada.connection.request("tasks/result", {"taskId": first.id})
            assert b"of ada" in finished
            await until(lambda: bool(heard["ada"]))
            assert heard["ada"][0][1]["taskId"] == first.id
            assert (await second.look()).status == "working"  # type: ignore[union-attr]
            assert heard["eve"] == []
            assert b"of eve" in await eve.connection.request("tasks/result", {"taskId": second.id})


@pytest.mark.parametrize("form", FORMS)
async def test_many_tasks_end_each_in_its_way_and_nothing_is_left_of_them(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    third, owners = 40, ("ada", "bob", "eve")
    before = asyncio.all_tasks()

    async with served(form, jobs) as servers:
        async with running_hub(tmp_path, servers) as hub, contextlib.AsyncExitStack() as stack:
            callers = {who: await stack.enter_async_context(client(hub, form, who)) for who in owners}

            async def begin(number: int) -> tuple[str, str]:
                who = owners[number % 3]
                return who, (await callers[who].start_tool("t__work", {"mark": str(number)})).id

            begun = await asyncio.gather(*(begin(number) for number in range(3 * third)))
            cancelled, finished, expired = (begun[start::3] for start in range(3))
            await asyncio.gather(*(callers[who].task(id_).cancel() for who, id_ in cancelled))
            await until(lambda: sum(jobs.ended.values()) == third)
            assert hub.hub_app.hub.open_calls == 0
        async with running_hub(tmp_path, servers) as hub, contextlib.AsyncExitStack() as stack:
            callers = {who: await stack.enter_async_context(client(hub, form, who)) for who in owners}
            jobs.go.set()
            results = await asyncio.gather(*(callers[who].task(id_).result() for who, id_ in finished))
            assert {text(result) for result in results} == {f"{number} worked" for number in range(1, 3 * third, 3)}
            for who, id_ in cancelled:
                with pytest.raises(Fault, match="cancelled"):
                    await callers[who].task(id_).result()
            tracker = hub.hub_app.tasks
            now = tracker.ledger.clock()
            tracker.ledger.clock = lambda: now + 86_400_001
            await tracker.sweep()
            for who, id_ in expired:
                with pytest.raises(Fault, match="no such task"):
                    await callers[who].task(id_).look()
            assert (len(tracker.ledger), tracker._live, tracker._tokens, tracker.queries._places) == (0, {}, {}, {})
            assert not tracker.ledger._reserved
            assert not tracker.ledger._owners
            assert hub.hub_app.upstreams["t"].tasks == 0
            assert not hub.hub_app.hub.tasks._open_requests
        async with running_hub(tmp_path, servers) as hub:
            assert len(hub.hub_app.tasks.ledger) == 0
    assert jobs.runs == {str(number): 1 for number in range(3 * third)}
    assert asyncio.all_tasks() <= before


async def test_a_call_that_is_tried_again_and_then_becomes_a_task_is_one_task(tmp_path: Path) -> None:
    recovery = {"category": "resource", "retryable": True, "retry_after_ms": 10, "retry_strategy": "fixed_delay"}
    busy = {"error": {"code": 3000, "message": "too busy", "data": {"_mgp": recovery}}}
    noon = "2026-08-01T12:00:00Z"
    begun = {"resultType": "task", "taskId": "1", "status": "working", "createdAt": noon, "lastUpdatedAt": noon}
    script = MgpScript(
        tmp_path,
        era="modern",
        mgp={"version": "0.2.0", "extensions": ["security"]},
        tools=[tool("get", annotations={"idempotentHint": True})],
        answers={"get": [busy, busy, {"result": {**begun, "ttlMs": 60_000}}]},
    )
    async with script.running_hub() as hub:
        asked = {"name": "s__get", "arguments": {}, "_meta": DECLARED}
        answer = (await RawClient(hub.url + "/mcp").modern("tools/call", asked))["result"]
        (kept,) = hub.hub_app.tasks.ledger.of("agent:local")
        assert (answer["resultType"], answer["taskId"], kept.upstream_id) == ("task", kept.id, "1")
        assert len(script.params("tools/call")) == 3
        assert not hub.hub_app.tasks.ledger._reserved
        assert hub.hub_app.hub.open_calls == 0
        assert hub.hub_app.tasks._live[kept.id].ticket is not None
