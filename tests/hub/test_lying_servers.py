"""Servers of the stateless era that break its rules: their own call fails, and no client is sent what may not be."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Client
from interlock.transports.stdio.process import Command
from interlock.wire.errors import Fault

from .modern_client import CAPABILITIES
from .running_hub import RawClient, RunningHub, child, running_hub, text_of

FORM = {"method": "elicitation/create", "params": {"mode": "form", "message": "m", "requestedSchema": {}}}
PAGE = {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://h.example/"}}
SPOKEN = {"method": "elicitation/create", "params": {"mode": "voice", "message": "m"}}
MODEL = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
MODEL_WITH_TOOLS = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5, "tools": []}}
ROOTS = {"method": "roots/list"}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"liar": child("lying_server.py")}) as running:
        yield running


async def said(hub: RunningHub, answer: Any, capabilities: Any = None, *, old: bool = False, first: Any = ()) -> Any:
    """The client's answer where the server says this."""
    client = RawClient(f"{hub.url}/servers/liar/mcp")
    params = {"name": "say", "arguments": {"answer": answer, "first": list(first)}}
    if old:
        await client.initialize(capabilities)
        return await client.legacy("tools/call", params)
    return await client.modern("tools/call", {**params, "_meta": {CAPABILITIES: capabilities or {}}})


def asking(*requests: Any, **more: Any) -> Any:
    """A result that is a question."""
    return {"result": {"resultType": "input_required", "inputRequests": dict(enumerate(requests)), **more}}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["weird", "task", "", 5, None])
async def test_a_result_of_an_unknown_kind_is_no_answer(hub: RunningHub, kind: object, old: bool) -> None:
    answer = await said(hub, {"result": {"resultType": kind, "content": []}}, old=old)
    assert answer["error"]["code"] == -32603


async def test_a_result_that_does_not_say_its_kind_is_complete_and_says_so_to_the_client(hub: RunningHub) -> None:
    for result in ({"content": []}, {"_meta": {}, "content": []}, {}):
        assert (await said(hub, {"result": result}))["result"] == {"resultType": "complete", **result}
        assert (await said(hub, {"result": result}, old=True))["result"] == result


@pytest.mark.parametrize(
    ("capabilities", "request_", "needed"),
    [
        ({}, FORM, {"elicitation": {"form": {}}}),
        ({}, ROOTS, {"roots": {}}),
        ({}, MODEL, {"sampling": {}}),
        ({"elicitation": {}}, PAGE, {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, FORM, {"elicitation": {"form": {}}}),
        ({"elicitation": {"form": {}, "url": {}}}, SPOKEN, {"elicitation": {"voice": {}}}),
        ({"sampling": {}}, MODEL_WITH_TOOLS, {"sampling": {"tools": {}}}),
    ],
)
async def test_a_client_is_not_asked_what_it_did_not_say_it_answers(
    hub: RunningHub, capabilities: Any, request_: Any, needed: Any
) -> None:
    answer = await said(hub, asking(request_), capabilities)
    assert answer["error"]["code"] == -32021
    assert answer["error"]["data"]["requiredCapabilities"] == needed


async def test_a_client_is_asked_what_it_said_it_answers(hub: RunningHub) -> None:
    everything = {"elicitation": {"form": {}, "url": {}, "voice": {}}, "sampling": {"tools": {}}, "roots": {}}
    asked = (FORM, PAGE, SPOKEN, MODEL_WITH_TOOLS, ROOTS)
    result = (await said(hub, asking(*asked), everything))["result"]
    assert list(result["inputRequests"].values()) == list(asked)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    "question",
    [
        {"resultType": "input_required"},
        {"resultType": "input_required", "inputRequests": {}},
        {"resultType": "input_required", "inputRequests": [ROOTS]},
        {"resultType": "input_required", "inputRequests": {"a": 5}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "tools/call", "params": {"name": "x"}}}},
        {"resultType": "input_required", "inputRequests": {"a": {**FORM, "params": {"mode": 5}}}},
        {"resultType": "input_required", "requestState": 5},
        {"resultType": "input_required", "requestState": None},
    ],
)
async def test_a_question_that_is_none_is_no_answer(hub: RunningHub, question: Any, old: bool) -> None:
    answer = await said(hub, {"result": question}, {"elicitation": {}, "roots": {}}, old=old)
    assert answer["error"]["code"] == -32603


@pytest.mark.parametrize("old", [False, True])
async def test_a_question_is_no_answer_to_what_has_no_questions(hub: RunningHub, old: bool) -> None:
    client = RawClient(f"{hub.url}/servers/liar/mcp")
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}
    if old:
        await client.initialize()
        answer = await client.legacy("completion/complete", params)
    else:
        answer = await client.modern("completion/complete", params)
    assert answer["error"]["code"] == -32603
    assert "completion/complete" in answer["error"]["message"]


@pytest.mark.parametrize("code", [-32020, -32022, -32042, -32050, -32099])
async def test_a_new_client_gets_no_code_that_the_specification_keeps_for_itself(hub: RunningHub, code: int) -> None:
    error = (await said(hub, {"error": {"code": code, "message": "words", "data": {"a": 1}}}))["error"]
    assert error == {"code": -32603, "message": "words", "data": {"a": 1}}


async def test_a_new_client_hears_of_a_missing_resource_in_its_own_revisions_words(hub: RunningHub) -> None:
    new, old = RawClient(f"{hub.url}/servers/liar/mcp"), RawClient(f"{hub.url}/servers/liar/mcp")
    await old.initialize()
    assert (await new.modern("resources/read", {"uri": "a://b"}))["error"]["code"] == -32602
    assert (await old.legacy("resources/read", {"uri": "a://b"}))["error"]["code"] == -32002


async def test_a_server_that_asks_by_itself_is_answered_nothing_and_the_operator_is_told(hub: RunningHub) -> None:
    questions = [{"id": "q1", "method": "ping"}, {"id": "q2", **ROOTS}, {"id": "q3", "method": 5}]
    assert "result" in await said(hub, {"result": {"resultType": "complete", "content": []}}, first=questions)
    heard = await RawClient(f"{hub.url}/servers/liar/mcp").modern("tools/call", {"name": "heard"})
    assert json.loads(text_of(heard)) == []
    lines = [line.text for line in hub.hub_app.logs.tail("liar", 100)]
    assert sum("which this revision has not" in line for line in lines) == 2


async def test_an_empty_cursor_leads_to_the_next_page(hub: RunningHub) -> None:
    listed = await RawClient(f"{hub.url}/servers/liar/mcp").modern("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["say", "heard", "of_the_second_page"]


@pytest.mark.parametrize("kind", ["weird", "", 5])
async def test_the_client_library_takes_no_result_of_an_unknown_kind_either(kind: object) -> None:
    server = child("lying_server.py")
    async with Client(Command(server.command, server.env)) as client:
        with pytest.raises(Fault) as refused:
            await client.call_tool("say", {"answer": {"result": {"resultType": kind, "content": []}}})
        assert refused.value.name == "UPSTREAM_ERROR"
        assert await client.call_tool("say", {"answer": {"result": {"content": []}}}) == {"content": []}


@pytest.mark.parametrize("old", [False, True])
async def test_t30_a_page_in_an_error_is_of_the_web(hub: RunningHub, old: bool) -> None:
    for pages in ([{"url": "javascript:alert(1)"}], [{"url": "javascript:alert(1)"}, 5]):
        error = {"code": -32042, "message": "words", "data": {"elicitations": pages}}
        answer = await said(hub, {"error": error}, {"elicitation": {"url": {}}}, old=old)
        assert "not at a web address" in answer["error"]["message"]
        assert "javascript" not in str(answer)
