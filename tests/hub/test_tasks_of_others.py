"""Tasks belong to one principal: nobody else hears of them, reads them, or reaches them by an id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.client import Handlers
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

from .modern_client import ALL
from .running_hub import RawClient, child, running_hub, until
from .task_scene import DECLARED, FORMS, Form, client, name, outcomes, served, text
from .task_server import Jobs
from .test_changes import listening


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


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
        declared = DECLARED["io.modelcontextprotocol/clientCapabilities"]
        async with (
            listening(RawClient(hub.url + "/mcp", hub.key("ada")), declared, taskIds=[task.id]) as own,
            listening(eve, declared, taskIds=[task.id], toolsListChanged=True) as stream,
        ):
            assert own.heard[0]["params"]["notifications"] == {"taskIds": [task.id]}
            assert stream.heard[0]["params"]["notifications"] == {"toolsListChanged": True}
            jobs.go.set()
            assert text(await task.result()) == "a worked"
            await until(lambda: len(own.heard) > 1)
            assert stream.methods() == ["notifications/subscriptions/acknowledged"]
        undeclared = await eve.modern("subscriptions/listen", {"notifications": {"taskIds": [task.id]}})
        assert undeclared["error"]["code"] == -32021


@pytest.mark.parametrize("form", FORMS)
async def test_t31_nothing_more_is_told_of_a_task_whose_tool_was_taken_back(
    tmp_path: Path, jobs: Jobs, form: Form
) -> None:
    told: dict[str, list[Any]] = {"ada": [], "bob": []}
    async with served(form, jobs) as servers, running_hub(tmp_path, servers) as hub:
        async with (
            client(hub, form, "ada", notification_handler=lambda *said: told["ada"].append(said)) as ada,
            client(hub, form, "bob", notification_handler=lambda *said: told["bob"].append(said)) as bob,
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
            client(hub, "legacy", "ada", notification_handler=lambda *said: heard["ada"].append(said)) as ada,
            client(hub, "legacy", "eve", notification_handler=lambda *said: heard["eve"].append(said)) as eve,
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
                task.upstream_id
                for principal_name in ("agent:ada", "agent:eve")
                for task in hub.hub_app.tasks.ledger.of(principal_name)
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
            client(
                hub, "legacy", "ada", handlers=handlers, notification_handler=lambda *said: heard["ada"].append(said)
            ) as ada,
            client(
                hub, "legacy", "eve", handlers=handlers, notification_handler=lambda *said: heard["eve"].append(said)
            ) as eve,
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
