"""Tools that run on as tasks: in the form of 2025-11-25, and in the extension of the stateless era."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from peer import EVERYTHING, Peer, Refusal

from interlock.protocols.mcp.tasks import EXTENSION, RELATED, TERMINAL, TRANSITIONS
from interlock.server import Context, Server, TaskLimits, ToolError
from interlock.wire.errors import Fault
from waiting import until

NEW = {**EVERYTHING, "extensions": {EXTENSION: {}}}
FORM = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}


class Job:
    """Controls the tools of a test from outside."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.runs = 0
        self.stopped = asyncio.Event()
        self.ids: list[str | None] = []


def working_server(job: Job, limits: TaskLimits | None = None, *, admits: bool = False) -> Server:
    server = Server("works", tasks=limits, admit=(lambda path, headers: None) if admits else None)  # type: ignore[arg-type,return-value]

    @server.tool(task="optional")
    async def work(ctx: Context, fail: str = "") -> str:
        """Wait until it may go on."""
        job.runs += 1
        job.ids.append(ctx.task_id)
        ctx.progress(1, 2, "half way")
        try:
            await job.go.wait()
        except asyncio.CancelledError:
            job.stopped.set()
            raise
        if fail == "tool":
            raise ToolError("it did not work")
        if fail == "request":
            raise Fault("INVALID_PARAMS", "not like this")
        return "worked"

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        """Ask twice at once, and once more."""
        first, second = await asyncio.gather(ctx.elicit("Who?", FORM, key="who"), ctx.elicit("Whose?", FORM))
        third = await ctx.elicit("Sure?", FORM, key="who")
        return " ".join(
            str(answer.value["name"] if answer.value else answer.action) for answer in (first, second, third)
        )

    @server.tool(task="optional", task_from="become_task")
    async def later(ctx: Context, much: bool) -> str:
        """Answer at once what is little, and the rest as a task."""
        if not much:
            return "little"
        became = await ctx.become_task()
        await job.go.wait()
        return f"much, as a task: {became}"

    @server.tool
    def plain() -> str:
        """Never a task."""
        return "plain"

    return server


@pytest.fixture
def job() -> Job:
    return Job()


async def over(peer: Peer, id: str) -> dict[str, Any]:
    """A task once it is over."""

    async def ended() -> dict[str, Any] | None:
        task = await peer.call("tasks/get", taskId=id)
        return task if task["status"] in TERMINAL else None

    return await until(ended) or {}


async def asking(peer: Peer, id: str, count: int) -> dict[str, Any]:
    """A task's open questions, once there are so many."""

    async def asked() -> dict[str, Any] | None:
        requests: dict[str, Any] = (await peer.call("tasks/get", taskId=id)).get("inputRequests", {})
        return requests if len(requests) == count else None

    return await until(asked) or {}


async def test_a_server_declares_tasks_only_in_the_form_that_works_there(job: Job) -> None:
    new = Peer(working_server(job), capabilities=NEW)
    offered = (await new.call("server/discover"))["capabilities"]
    assert offered["extensions"] == {EXTENSION: {}}
    assert "tasks" not in offered
    old = (await Peer(working_server(job)).legacy())["capabilities"]
    assert old["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "extensions" not in old
    listed = (await Peer(working_server(job, admits=True)).legacy())["capabilities"]
    assert listed["tasks"]["list"] == {}
    assert "tasks" not in (await Peer(working_server(job)).legacy("2025-06-18"))["capabilities"]
    assert "extensions" not in (await Peer(Server("none")).call("server/discover"))["capabilities"]


async def test_tool_support_is_listed_for_2025_11_25_alone(job: Job) -> None:
    server = working_server(job)
    old = Peer(server)
    await old.legacy()
    listed = {tool["name"]: tool.get("execution") for tool in (await old.call("tools/list"))["tools"]}
    assert listed == {
        "work": {"taskSupport": "optional"},
        "ask": {"taskSupport": "required"},
        "later": {"taskSupport": "optional"},
        "plain": None,
    }
    assert not any("execution" in tool for tool in (await Peer(server).call("tools/list"))["tools"])


async def test_a_call_of_the_stateless_era_goes_on_as_a_task_and_its_result_is_in_the_task(job: Job) -> None:
    peer = Peer(working_server(job), capabilities=NEW)
    created = await peer.tool("work")
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert created["ttlMs"] == 3_600_000
    assert created["pollIntervalMs"] == 1000
    id_ = created["taskId"]
    assert job.ids in ([], [id_])

    async def half_way() -> dict[str, Any] | None:
        task = await peer.call("tasks/get", taskId=id_)
        return task if task.get("statusMessage") == "half way" else None

    task = await until(half_way) or {}
    assert task["status"] == "working"
    assert task["resultType"] == "complete"
    job.go.set()
    done = await over(peer, id_)
    assert done["status"] == "completed"
    assert done["result"]["content"] == [{"type": "text", "text": "worked"}]
    assert RELATED not in done["result"].get("_meta", {})
    assert job.runs == 1


@pytest.mark.parametrize(("fail", "old", "new"), [("tool", "failed", "completed"), ("request", "failed", "failed")])
async def test_a_tools_own_error_fails_a_task_only_in_the_older_form(job: Job, fail: str, old: str, new: str) -> None:
    job.go.set()
    server = working_server(job)
    peer = Peer(server, capabilities=NEW)
    id_ = (await peer.tool("work", {"fail": fail}))["taskId"]
    done = await over(peer, id_)
    assert done["status"] == new
    assert ("error" in done) == (fail == "request")
    assert done.get("result", {}).get("isError", False) == (fail == "tool")
    before = Peer(server)
    await before.legacy()
    id_ = (await before.tool("work", {"fail": fail}, task={}))["task"]["taskId"]
    assert (await over(before, id_))["status"] == old
    if fail == "tool":
        assert (await before.call("tasks/result", taskId=id_))["isError"] is True
    else:
        with pytest.raises(Refusal, match="not like this"):
            await before.call("tasks/result", taskId=id_)


async def test_the_older_form_hands_out_the_result_apart_and_waits_for_it(job: Job) -> None:
    peer = Peer(working_server(job))
    await peer.legacy()
    created = await peer.tool("work", task={"ttl": 60_000}, _meta={"progressToken": "mine"})
    task = created["task"]
    assert created.keys() == {"task"}
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, 1000)
    assert "ttlMs" not in task
    _, waiting = peer.start("tasks/result", taskId=task["taskId"])
    assert (await peer.call("tasks/get", taskId=task["taskId"]))["status"] == "working"
    job.go.set()
    result = await waiting.answer
    assert result["content"] == [{"type": "text", "text": "worked"}]
    assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
    told = [params for method, params in peer.heard if method == "notifications/progress"]
    assert told == [
        {
            "progressToken": "mine",
            "progress": 1,
            "total": 2,
            "message": "half way",
            "_meta": {RELATED: {"taskId": task["taskId"]}},
        }
    ]
    states = [params["status"] for method, params in peer.heard if method == "notifications/tasks/status"]
    assert states == ["working", "completed"]


async def test_what_a_client_did_not_ask_for_or_a_tool_does_not_do_is_refused_as_each_form_says(job: Job) -> None:
    server = working_server(job)
    job.go.set()
    undeclared = Peer(server)
    assert (await undeclared.tool("work"))["resultType"] == "complete"
    with pytest.raises(Refusal) as missing:
        await undeclared.tool("ask")
    assert missing.value.code == -32021
    assert missing.value.data["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        with pytest.raises(Refusal) as missing:
            await undeclared.call(method, taskId="x", inputResponses={})
        assert missing.value.code == -32021
    declared = Peer(server, capabilities=NEW)
    assert (await declared.tool("plain", task={"ttl": "nonsense"}))["resultType"] == "complete"
    for method in ("tasks/result", "tasks/list"):
        with pytest.raises(Refusal) as gone:
            await declared.call(method, taskId="x")
        assert gone.value.code == -32601
    old = Peer(server)
    await old.legacy()
    for name, more in (("plain", {"task": {}}), ("ask", {})):
        with pytest.raises(Refusal) as refused:
            await old.tool(name, **more)
        assert refused.value.code == -32601
    assert "content" in await old.tool("work")
    before = Peer(server)
    await before.legacy("2025-06-18")
    assert "content" in await before.tool("work", task={})
    with pytest.raises(Refusal) as refused:
        await before.call("tasks/get", taskId="x")
    assert refused.value.code == -32601


async def test_another_principals_task_is_as_unknown_as_one_that_never_was(job: Job) -> None:
    server = working_server(job, admits=True)
    ada, bob = (Peer(server, principal_name=name, capabilities=NEW) for name in ("ada", "bob"))
    id_ = (await ada.tool("work"))["taskId"]
    told: list[tuple[int, str]] = []
    for unknown in (id_, "never was"):
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            with pytest.raises(Refusal) as refused:
                await bob.call(method, taskId=unknown, inputResponses={})
            told.append((refused.value.code, str(refused.value)))
    assert set(told) == {(-32602, "no such task: it is unknown, or it has expired")}
    assert (await ada.call("tasks/get", taskId=id_))["status"] == "working"
    old = Peer(server, principal_name="ada")
    await old.legacy()
    with pytest.raises(Refusal):
        await old.call("tasks/result", taskId=id_)
    mine = (await old.tool("work", task={}))["task"]["taskId"]
    assert [task["taskId"] for task in (await old.call("tasks/list"))["tasks"]] == [mine]
    theirs = Peer(server, principal_name="bob")
    await theirs.legacy()
    assert (await theirs.call("tasks/list"))["tasks"] == []


async def test_cancelling_stops_the_function_and_what_is_over_stays_as_it_is(job: Job) -> None:
    server = working_server(job)
    new = Peer(server, capabilities=NEW)
    id_ = (await new.tool("work"))["taskId"]
    await until(lambda: job.runs)
    assert await new.call("tasks/cancel", taskId=id_) == {"resultType": "complete"}
    await asyncio.wait_for(job.stopped.wait(), 120)
    assert (await over(new, id_))["status"] == "cancelled"
    assert await new.call("tasks/cancel", taskId=id_) == {"resultType": "complete"}
    old = Peer(server)
    await old.legacy()
    id_ = (await old.tool("work", task={}))["task"]["taskId"]
    _, waiting = old.start("tasks/result", taskId=id_)
    cancelled = await old.call("tasks/cancel", taskId=id_)
    assert (cancelled["taskId"], cancelled["status"]) == (id_, "cancelled")
    with pytest.raises(Refusal, match="cancelled"):
        await waiting.answer
    with pytest.raises(Refusal) as refused:
        await old.call("tasks/cancel", taskId=id_)
    assert refused.value.code == -32602


async def test_a_task_of_the_stateless_era_is_answered_in_updates_key_by_key(job: Job) -> None:
    peer = Peer(working_server(job), capabilities=NEW)
    id_ = (await peer.tool("ask"))["taskId"]
    asked = await asking(peer, id_, 2)
    assert {request["params"]["message"] for request in asked.values()} == {"Who?", "Whose?"}
    (other,) = asked.keys() - {"who"}

    async def answer(**given: Any) -> None:
        assert await peer.call("tasks/update", taskId=id_, inputResponses=given) == {"resultType": "complete"}

    await answer(never={"action": "accept"}, who={"action": "accept", "content": {"name": ""}})
    assert (await asking(peer, id_, 2)).keys() == asked.keys(), "what does not fit is asked still"
    await answer(who={"action": "accept", "content": {"name": "ada"}})
    assert (await asking(peer, id_, 1)).keys() == {other}
    await answer(who={"action": "decline"}, **{other: {"action": "accept", "content": {"name": "bob"}}})
    (again,) = await asking(peer, id_, 1)
    assert again not in asked, "a key is never used twice"
    await answer(**{again: {"action": "decline"}})
    assert (await over(peer, id_))["result"]["content"][0]["text"] == "ada bob decline"


async def test_a_task_of_the_older_form_asks_whoever_waits_for_its_result(job: Job) -> None:
    peer = Peer(working_server(job))
    await peer.legacy()
    id_ = (await peer.tool("ask", task={}))["task"]["taskId"]

    async def asks() -> bool:
        return (await peer.call("tasks/get", taskId=id_))["status"] == "input_required"

    await until(asks)
    assert peer.questions == []
    names = iter(("ada", "bob", "eve"))
    peer.answers = lambda request: {"action": "accept", "content": {"name": next(names)}}
    result = await peer.call("tasks/result", taskId=id_)
    assert result["content"][0]["text"] == "ada bob eve"
    assert len(peer.questions) == 3
    for question in peer.questions:
        assert msgspec.json.decode(question.params)["_meta"][RELATED] == {"taskId": id_}


async def test_whoever_stops_waiting_leaves_the_question_to_the_next(job: Job) -> None:
    peer = Peer(working_server(job))
    await peer.legacy()
    id_ = (await peer.tool("ask", task={}))["task"]["taskId"]
    silent = Peer.on_request
    peer.on_request = lambda request: peer.questions.append(request)  # type: ignore[method-assign]
    handle, _ = peer.start("tasks/result", taskId=id_)
    await until(lambda: len(peer.questions) >= 2)
    peer.link.cancel(handle, "no patience")
    peer.on_request = lambda request: silent(peer, request)  # type: ignore[method-assign]
    peer.answers = lambda request: {"action": "accept", "content": {"name": "ada"}}
    result = await peer.call("tasks/result", taskId=id_)
    assert result["content"][0]["text"] == "ada ada ada"


async def test_a_function_may_say_by_itself_when_it_becomes_a_task(job: Job) -> None:
    server = working_server(job)
    peer = Peer(server, capabilities=NEW)
    assert (await peer.tool("later", {"much": False}))["content"][0]["text"] == "little"
    created = await peer.tool("later", {"much": True})
    assert created["resultType"] == "task"
    job.go.set()
    assert (await over(peer, created["taskId"]))["result"]["content"][0]["text"] == "much, as a task: True"
    assert (await Peer(server).tool("later", {"much": True}))["content"][0]["text"] == "much, as a task: False"


async def test_a_stream_tells_of_the_tasks_it_was_opened_for_and_of_nobody_elses(job: Job) -> None:
    server = working_server(job)
    ada, bob = (Peer(server, principal_name=name, capabilities=NEW) for name in ("ada", "bob"))
    id_ = (await ada.tool("work"))["taskId"]
    with pytest.raises(Refusal) as refused:
        await Peer(server, principal_name="ada").call("subscriptions/listen", notifications={"taskIds": [id_]})
    assert refused.value.code == -32021
    _, mine = ada.start("subscriptions/listen", notifications={"taskIds": [id_, "never was"]})
    _, theirs = bob.start("subscriptions/listen", notifications={"taskIds": [id_]})
    await asyncio.wait_for(mine.noted.wait(), 120)
    await asyncio.wait_for(theirs.noted.wait(), 120)
    job.go.set()
    await over(ada, id_)
    (_, granted), *told = mine.notes
    assert granted["notifications"] == {"taskIds": [id_]}
    assert theirs.notes[0][1]["notifications"] == {}
    assert {method for method, _ in told} == {"notifications/tasks"}
    last = told[-1][1]
    assert (last["taskId"], last["status"]) == (id_, "completed")
    assert last["result"]["content"][0]["text"] == "worked"
    assert len(theirs.notes) == 1


async def test_tasks_are_bounded_in_number_and_time(job: Job) -> None:
    server = working_server(job, TaskLimits(tasks=3, per_principal=2, longest_ttl_ms=60_000))
    ada, bob = Peer(server, principal_name="ada"), Peer(server, principal_name="bob")
    await ada.legacy()
    await bob.legacy()
    first = (await ada.tool("work", task={"ttl": 10**9}))["task"]
    assert first["ttl"] == 60_000
    await ada.tool("work", task={})
    with pytest.raises(Refusal, match="too many tasks"):
        await ada.tool("work", task={})
    await bob.tool("work", task={})
    with pytest.raises(Refusal, match="too many tasks"):
        await bob.tool("work", task={})


async def test_a_task_is_stopped_and_forgotten_when_its_time_is_over(job: Job) -> None:
    ada = Peer(working_server(job, TaskLimits(tasks=1, longest_ttl_ms=50)), principal_name="ada")
    await ada.legacy()
    first = (await ada.tool("work", task={}))["task"]
    _, waiting = ada.start("tasks/result", taskId=first["taskId"])
    with pytest.raises(Refusal, match="no such task"):
        await waiting.answer
    await asyncio.wait_for(job.stopped.wait(), 120)
    with pytest.raises(Refusal, match="no such task"):
        await ada.call("tasks/get", taskId=first["taskId"])
    assert (await ada.tool("work", task={}))["task"]["taskId"] != first["taskId"]


async def test_a_result_too_large_to_keep_fails_its_task(job: Job) -> None:
    job.go.set()
    peer = Peer(working_server(job, TaskLimits(held_bytes=10)), capabilities=NEW)
    done = await over(peer, (await peer.tool("work"))["taskId"])
    assert done["status"] == "failed"
    assert "no space is left" in done["error"]["message"]


async def test_a_long_list_of_tasks_has_pages(job: Job) -> None:
    peer = Peer(working_server(job, admits=True), principal_name="ada")
    await peer.legacy()
    made = [(await peer.tool("work", task={}))["task"]["taskId"] for _ in range(150)]
    page = await peer.call("tasks/list")
    rest = await peer.call("tasks/list", cursor=page["nextCursor"])
    assert [task["taskId"] for task in page["tasks"] + rest["tasks"]] == made
    assert "nextCursor" not in rest
    with pytest.raises(Refusal, match="not one of this list"):
        await peer.call("tasks/list", cursor="made up")


def test_what_is_over_leads_nowhere_and_the_rest_leads_on() -> None:
    assert {status for status, ways in TRANSITIONS.items() if not ways} == TERMINAL
    assert all(ways >= TERMINAL for status, ways in TRANSITIONS.items() if status not in TERMINAL)
