"""Tasks through the hub, in the two straight pairs: begun, followed, answered, cancelled, and recorded once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.client import Client, Handlers
from interlock.config.settings import AgentSettings, ServerSettings
from interlock.hub.audit.search import Search, search
from interlock.protocols.mcp.tasks import EXTENSION, RELATED
from interlock.wire.errors import Fault

from .mgp_script import MgpScript, tool
from .people import read_and_answer
from .running_hub import RawClient, RunningHub, child, running_hub, until
from .task_scene import DECLARED, FORMS, Form, client, name, outcomes, served, text
from .task_server import Jobs, task_server
from .test_decisions import ADA


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


async def half_way(task: Any) -> str:
    """What a task says of itself in the middle, once it is there."""

    async def message() -> str | None:
        state = await task.look()
        return state.message if state is not None and (state.message or "").endswith("is half way") else None

    return await until(message) or ""


@pytest.mark.parametrize("form", FORMS)
async def test_texts_about_a_task_are_masked_where_its_results_are(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    secret = "ghp_" + "a1B2" * 9
    told: list[Any] = []
    seen: list[Any] = []
    async with served(form, jobs) as servers:
        masked = {"t": msgspec.structs.replace(servers["t"], scan_results="mask")}
        async with (
            running_hub(tmp_path, masked) as hub,
            client(hub, form, "ada", notification_handler=lambda *m: told.append(m)) as ada,
        ):
            task = await ada.start_tool("t__work", {"mark": secret}, progress=lambda *at: seen.append(at))
            await task.watch()
            told.append(await half_way(task))
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
            client(
                hub,
                form,
                "ada",
                handlers=Handlers(elicit_form=name),
                notification_handler=lambda *heard: told.append(heard),
            )
        )
        task = await ada.start_tool("t__work", {"mark": "a"}, ttl_ms=60_000, progress=lambda *at: seen.append(at))
        assert task.status == "working"
        assert task.state is not None
        assert (task.state.poll_ms, task.state.ttl_ms) == (20, 60_000 if form == "legacy" else 3_600_000)
        await task.watch()
        assert await half_way(task) == "a is half way"
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


async def test_a_task_that_a_person_approved_reports_its_progress(tmp_path: Path, jobs: Jobs) -> None:
    seen: list[str | None] = []
    asking = {"ada": AgentSettings(ask=("t__work",))}
    async with (
        served("legacy", jobs) as servers,
        running_hub(tmp_path, servers, agents=asking) as hub,
        client(hub, "legacy", "ada") as ada,
    ):
        inbox = hub.hub_app.inbox
        started = ada.start_tool("t__work", {"mark": "a"}, progress=lambda at, total, message: seen.append(message))
        starting = asyncio.create_task(started)
        await until(lambda: bool(inbox.all(only_open=True)))
        await read_and_answer(inbox, inbox.all(only_open=True)[0].id, "once", ADA)
        task = await starting
        await until(lambda: "a is half way" in seen)
        jobs.go.set()
        assert text(await task.result()) == "a worked"


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


async def test_a_task_that_cannot_be_stored_names_no_place_of_the_database(tmp_path: Path, jobs: Jobs) -> None:
    refuses = "CREATE TRIGGER full BEFORE INSERT ON documents WHEN NEW.collection = 'tasks'"
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "modern") as ada:
        await hub.hub_app.store.commit(
            lambda database: database.execute(f"{refuses} BEGIN SELECT RAISE(ABORT, 'no room'); END")
        )
        with pytest.raises(Fault) as refused:
            await ada.start_tool("t__work", {"mark": "a"})
    assert refused.value.message == "the task could not be stored: no room"
    assert str(tmp_path) not in str(refused.value.data)


async def test_a_task_that_nobody_asks_for_is_looked_at_by_the_hub(tmp_path: Path, jobs: Jobs) -> None:
    async with served("modern", jobs) as servers, running_hub(tmp_path, servers) as hub, client(hub, "modern") as ada:
        task = await ada.start_tool("t__work", {"mark": "a"})
        jobs.go.set()
        tracker = hub.hub_app.tasks
        live = tracker.running[task.id]
        await tracker.sweep()
        assert live.state.status == "working", "it was just begun"
        live.checked = float("-inf")
        await tracker.sweep()
        assert live.state.status == "completed"
        assert await outcomes(hub) == [("SUCCESS", "as a task")]
        assert text(await task.result()) == "a worked"


@pytest.mark.parametrize("form", FORMS)
async def test_the_result_of_a_task_is_finished_as_any_result_is(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with task_server(jobs).http() as address:
        servers = {"t": ServerSettings(url=address.url, era=form, max_result_tokens=500)}
        async with running_hub(tmp_path, servers) as hub, client(hub, form) as ada:
            result = await (await ada.start_tool("t__big")).result()
            encoded = json.dumps(result)
            assert "interlock://t/text://one" in encoded
            assert "x" * 100 in encoded
            assert "x" * 5000 not in encoded
            assert "The rest of the result" in encoded


async def test_tasks_are_offered_where_they_work_and_never_across_the_eras(tmp_path: Path, jobs: Jobs) -> None:
    async with task_server(jobs).http() as old, task_server(jobs).http() as new:
        servers = {"o": ServerSettings(url=old.url, era="legacy"), "n": ServerSettings(url=new.url, era="modern")}
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


def free_quota(hub: RunningHub) -> int:
    """How many tasks the agent may still have. Takes all of them."""
    return sum(1 for _ in iter(lambda: hub.hub_app.tasks.ledger.reserve("agent:local"), False))


@pytest.mark.parametrize("form", FORMS)
async def test_only_calls_of_tools_become_tasks(tmp_path: Path, jobs: Jobs, form: Form) -> None:
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub:
        raw = RawClient(hub.url + "/mcp")
        asked = {"uri": "interlock://t/text://one", "task": {}, "_meta": DECLARED if form == "modern" else {}}
        if form == "legacy":
            await raw.initialize()
        answer = await (raw.modern if form == "modern" else raw.legacy)("resources/read", asked)
        assert answer["result"]["contents"][0]["text"] == "1"
        assert free_quota(hub) == hub.hub_app.config.hub.limits.tasks_per_agent


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
        assert free_quota(hub) == hub.hub_app.config.hub.limits.tasks_per_agent - 1
        assert hub.hub_app.hub.open_calls == 0
        assert hub.hub_app.tasks.running[kept.id].ticket is not None
