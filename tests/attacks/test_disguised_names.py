"""A server spells member names with JSON escapes, or writes one twice: the hub reads what every JSON reader reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec
import pytest

from hub.committed import CommittedRecords
from hub.running_hub import RawClient, RunningHub

from .hostile import WAYS, Hostile, HostileProgram, HostileWeb, Way, behind_a_hub, disguised

TEXT: dict[str, Any] = {"content": [{"type": "text", "text": "x"}]}
LINK = {"type": "resource_link", "uri": "a://b", "name": "b"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a://b", "text": "b"}}
QUESTION = {"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": {}}}
ASKS = {"resultType": "input_required", "inputRequests": {"a": QUESTION}, "requestState": "bare"}
TASK = {"taskId": "t", "status": "working", "createdAt": "2026-07-28T00:00:00Z", "ttlMs": None}
RESULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a tool's failure": ("tools/call", {**TEXT, "isError": True}),
    "a success": ("tools/call", {**TEXT, "isError": False}),
    "a link": ("tools/call", {"content": [LINK]}),
    "an embedded resource": ("tools/call", {"content": [TEXT["content"][0], EMBEDDED]}),
    "an address in a prompt": ("prompts/get", {"messages": [{"role": "user", "content": EMBEDDED}]}),
    "an address in a resource": ("resources/read", {"contents": [{"uri": "a://b", "text": "b"}]}),
    "structured content": ("tools/call", {**TEXT, "structuredContent": [1, 2]}),
    "a public result": ("tools/call", {**TEXT, "cacheScope": "public", "ttlMs": 1}),
    "a public resource": ("resources/read", {"contents": [{"uri": "a://b", "text": "b"}], "cacheScope": "public"}),
    "a result that names its kind": ("tools/call", {**TEXT, "resultType": "complete"}),
    "a question with a state": ("tools/call", {**TEXT, **ASKS}),
    "a question for a prompt": ("prompts/get", {"messages": [], **ASKS}),
    "a task that nobody asked for": ("tools/call", {"resultType": "task", **TASK}),
    "a nested task": ("tools/call", {"task": TASK}),
    "a result of a strange kind": ("tools/call", {**TEXT, "resultType": "strange"}),
    "metadata": ("tools/call", {**TEXT, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "me"}}}),
}


class ServerBehindHub(NamedTuple):
    """A hub, the hostile server behind it, and how both are reached."""

    way: Way
    hub: RunningHub
    server: HostileWeb | HostileProgram


@pytest.fixture(scope="module", params=WAYS, ids=str)
async def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServerBehindHub]:
    async with behind_a_hub(tmp_path_factory.mktemp("hub"), request.param) as (hub, server):
        yield ServerBehindHub(request.param, hub, server)


@pytest.fixture
def behind(shared: ServerBehindHub) -> ServerBehindHub:
    """The hub of each way, whose server has forgotten what the test before told it to say."""
    for said in (shared.server.results, shared.server.answers, shared.server.asked):
        said.clear()
    return shared


async def asked(hub: RunningHub, way: Way, method: str) -> Any:
    """The answer to a client that declared nothing."""
    params: dict[str, Any] = {
        "tools/call": {"name": "bad__ok", "arguments": {}},
        "prompts/get": {"name": "bad__ask"},
        "resources/read": {"uri": "interlock://bad/a://b"},
    }[method]
    client = RawClient(hub.url + "/mcp")
    if way.client == "modern":
        if method == "resources/read":
            listed = await client.modern("resources/list")
            params = {"uri": listed["result"]["resources"][0]["uri"]}
        answer = await client.modern(method, params)
    else:
        await client.initialize()
        if method == "resources/read":
            params = {"uri": (await client.legacy("resources/list"))["result"]["resources"][0]["uri"]}
        answer = await client.legacy(method, params)
    for error in [answer["error"]] if "error" in answer else []:
        (error.get("data") or {}).pop("trace_id", None)
    return answer


async def ending(hub: RunningHub, records: CommittedRecords) -> Any:
    """How the last call ended, as the audit log has it, without the size: a disguise is longer."""
    await hub.hub_app.recorder.flushed()
    return msgspec.structs.replace([record.outcome for record in records if record.outcome is not None][-1], size=0)


@pytest.mark.parametrize("texts", [False, True], ids=["names", "names and texts"])
async def test_t39_a_disguised_result_is_told_and_recorded_like_a_plain_one(
    behind: ServerBehindHub, texts: bool
) -> None:
    way, hub, server = behind
    records = CommittedRecords(hub.hub_app.bus)
    for kind, (method, result) in RESULTS.items():
        whole = {"resultType": "complete", **result} if way.server == "modern" else result
        server.results[method] = msgspec.json.encode(whole)
        told = await asked(hub, way, method)
        end = await ending(hub, records)
        server.results[method] = disguised(whole, texts=texts)
        assert await asked(hub, way, method) == told, kind
        assert await ending(hub, records) == end, kind
        assert_is_safe(way, kind, told, end)


def assert_is_safe(way: Way, kind: str, told: Any, end: Any) -> None:
    """Results that must never cross, in every spelling."""
    said = json.dumps(told)
    assert '"a://b"' not in said, "an address leaves under the hub's own"
    if way.server == "modern":
        assert '"bare"' not in said, "a state leaves sealed"
    if way.client == "modern":
        assert '"public"' not in said, "what one caller got is nobody else's"
    if kind == "a tool's failure":
        assert end.tool == "error"
    if "question" in kind and way.server == "modern":
        assert "error" in told, "a client that answers nothing is asked nothing"
    if "result" in told and way.client == "modern":
        assert told["result"]["resultType"] == "complete"


DUPLICATES = {
    "failure and success": b'{"content":[],"isError":true,"isError":false}',
    "success and failure": b'{"content":[],"isError":false,"isError":true}',
    "two contents": b'{"content":[{"type":"text","text":"a"}],"content":[]}',
    "the same twice": b'{"content":[],"content":[]}',
    "one of them disguised": b'{"content":[],"c\\u006fntent":[]}',
    "spaces between": b'{ "content" : [] , "content" : [1] }',
    "values of one beginning": b'{"content":[],"x":12,"x":1}',
    "two kinds": b'{"resultType":"complete","content":[],"resultType":"input_required"}',
    "unknown names": b'{"content":[],"a":1,"b":{"a":1},"a":2}',
    "hidden behind a quote": b'{"content":[],"x":"\\"","y":"","x":""}',
}
ENVELOPES = {
    "two results": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},"result":{"content":[],"isError":true}}',
    "a disguised one": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},"r\\u0065sult":{"content":[]}}',
    "a result and an error": b'{"jsonrpc":"2.0","id":%ID%,"result":{},"error":{"code":1,"message":"x"}}',
    "two ids": b'{"jsonrpc":"2.0","id":%ID%,"id":%ID%,"result":{"content":[]}}',
    "hidden behind a quote": b'{"jsonrpc":"2.0","x":"\\"","id":%ID%,"result":{"content":[]},"result":""}',
}
ENDLESS = (
    b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]}'
    + b"".join(b',"%d":1' % (number % 99_999) for number in range(100_000))
    + b"}"
)


async def test_t39_a_name_that_stands_twice_in_an_answer_is_an_error_of_its_server(behind: ServerBehindHub) -> None:
    way, hub, server = behind
    records = CommittedRecords(hub.hub_app.bus)
    whole = {kind: b'{"jsonrpc":"2.0","id":%%ID%%,"result":%b}' % result for kind, result in DUPLICATES.items()}
    # Large answers are read the same for every client.
    endless = {} if way.client == "legacy" else {"an endless envelope": ENDLESS}
    for kind, answer in (whole | ENVELOPES | endless).items():
        server.answers["tools/call"] = answer
        told = await asked(hub, way, "tools/call")
        assert told["error"]["data"]["name"] == "UPSTREAM_ERROR", (kind, told)
        end = await ending(hub, records)
        assert (end.result, end.tool) != ("SUCCESS", "ok"), kind
    assert hub.hub_app.hub.open_calls == 0


async def test_t39_spaces_escapes_and_unknown_members_make_no_answer_bad(behind: ServerBehindHub) -> None:
    fine = {
        "spaces": b'{ "content" : [ { "type" : "text" , "text" : "a" } ] , "isError" : false }',
        "unknown members": b'{"content":[{"type":"text","text":"a"}],"x":{"content":[]},"y":[1,"content"]}',
        "a text like a member": b'{"content":[{"type":"text","text":"a"}],"x":"\\"content\\":[]"}',
        "an empty name": b'{"":1,"content":[{"type":"text","text":"a"}]}',
        "values of one beginning": b'{"content":[{"type":"text","text":"a"}],"x":12,"y":1}',
    }
    way, hub, server = behind
    for kind, result in fine.items():
        if way.server == "modern":
            result = result.replace(b"{", b'{"resultType":"complete",', 1)
        server.results["tools/call"] = result
        told = await asked(hub, way, "tools/call")
        assert told["result"]["content"][0]["text"] == "a", (kind, told)


async def test_t39_an_address_in_a_disguised_error_leaves_under_the_hubs_own(behind: ServerBehindHub) -> None:
    way, hub, server = behind
    error = {"code": -32002 if way.server == "legacy" else -32602, "message": "gone", "data": {"uri": "a://b"}}
    answer = b'{"jsonrpc":"2.0","id":%%ID%%,"error":%b}'
    server.answers["resources/read"] = answer % msgspec.json.encode(error)
    told = await asked(hub, way, "resources/read")
    server.answers["resources/read"] = answer % disguised(error, texts=True)
    assert await asked(hub, way, "resources/read") == told
    assert told["error"]["data"]["uri"] != "a://b"


@pytest.mark.parametrize("shared", [way for way in WAYS if way.client == "modern"], indirect=True, ids=str)
async def test_t39_a_disguised_request_reaches_the_server_as_a_plain_one_does(behind: ServerBehindHub) -> None:
    trace = "0123456789abcdef0123456789abcdef"
    offer = {"version": "0.2.0", "extensions": []}
    capabilities = {"elicitation": {}, "experimental": {"mgp": offer}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "progressToken": "mine",
        "traceparent": f"00-{trace}-0123456789abcdef-01",
    }
    params = {"name": "bad__ok", "arguments": {"a": {"b": 1}}, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "bad__ok"}
    _, hub, server = behind
    client = RawClient(hub.url + "/mcp")
    for body in (msgspec.json.encode(request), disguised(request), disguised(request, texts=True)):
        status, _, answer = await client.post(body, headers)
        assert status == 200, answer
    assert isinstance(server, Hostile)
    plain, *others = (message["params"] for message in server.asked if message["method"] == "tools/call")
    for params in (plain, *others):
        token = params["_meta"].pop("progressToken")
        assert token != "mine", "each side has its own tokens"
    assert others == [plain, plain]
    assert plain["_meta"]["traceparent"].split("-")[1] == trace
