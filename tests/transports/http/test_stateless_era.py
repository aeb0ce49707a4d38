"""Revision 2026-07-28 over HTTP: every request stands alone."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from http_peer import MODERN, Answer, RunningEndpoint, WaitingService, modern, opened, post, request

from interlock.transports.http.bounds import HttpBounds
from interlock.wire.errors import ErrorObject, Fault


async def sent(place: RunningEndpoint, data: bytes) -> Answer:
    async with place.peer() as peer:
        peer.send(data)
        return await peer.answer()


async def test_a_request_is_answered_with_one_json_body(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, id="abc"))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"jsonrpc": "2.0", "id": "abc", "result": {"said": "echo"}}


async def test_an_answer_may_come_later(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        assert exchange.open
        exchange.result(b'{"at":"last"}')
        assert not exchange.open
        exchange.result(b'{"said":"twice"}')
        assert (await peer.answer()).json["result"] == {"at": "last"}
        peer.send(modern(place.host, id=2))
        assert (await peer.answer()).json["id"] == 2


async def test_the_first_notification_makes_it_a_stream(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        exchange.notify("notifications/progress", b'{\n"progressToken":1,\r\n"progress":1}')
        answer = await peer.answer()
        assert answer.streams
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert "mcp-session-id" not in answer.headers
        event = await peer.event()
        assert set(event) == {"data"}, "no event ids in this era"
        assert msgspec.json.decode(event["data"])["params"]["progress"] == 1
        exchange.result(b'{\n"done":true}')
        assert msgspec.json.decode((await peer.event())["data"])["result"] == {"done": True}
        assert await peer.event() == {}
        peer.send(modern(place.host, id=2))
        assert (await peer.answer()).json["id"] == 2


async def test_a_failure_on_a_stream_is_its_last_event(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        exchange.notify("notifications/message", b"{}")
        exchange.fail(Fault("UPSTREAM_TIMEOUT", "too slow"))
        await peer.answer()
        await peer.event()
        assert msgspec.json.decode((await peer.event())["data"])["error"]["message"] == "too slow"
        assert await peer.event() == {}


async def test_open_streams_get_comments() -> None:
    async with opened(WaitingService(), HttpBounds(keep_alive_s=0.05)) as place, place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        (await place.service.next()).notify("notifications/message", b"{}")
        await peer.answer()
        await peer.chunk()
        assert await peer.chunk() == b":\n\n"
        assert await peer.chunk() == b":\n\n"


@pytest.mark.parametrize("streaming", [False, True])
async def test_closing_the_connection_cancels(place: RunningEndpoint, streaming: bool) -> None:
    cancelled = asyncio.Event()
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        exchange.on_cancel = lambda reason: cancelled.set()
        if streaming:
            exchange.notify("notifications/message", b"{}")
    await asyncio.wait_for(cancelled.wait(), 120)
    assert not exchange.open
    exchange.notify("notifications/message", b"{}")
    exchange.result(b"{}")


async def test_the_client_cannot_be_asked(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        with pytest.raises(Fault):
            exchange.ask("roots/list", b"{}")
        assert exchange.open


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("headers", [{}, {"MCP-Protocol-Version": MODERN, "Mcp-Session-Id": "x", "Last-Event-ID": "y"}])
async def test_there_is_nothing_to_get_or_delete(place: RunningEndpoint, method: str, headers: dict[str, str]) -> None:
    answer = await sent(place, request(method, place.host, headers))
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
async def test_other_methods_are_not_allowed(place: RunningEndpoint, method: str) -> None:
    answer = await sent(place, request(method, place.host, {}, b""))
    assert answer.status == 405
    assert answer.headers["allow"] == "POST, GET, DELETE"


async def test_the_answer_to_head_has_no_body(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(request("HEAD", place.host, {}) + modern(place.host))
        assert (await peer.answer()).status == 405
        assert (await peer.answer()).json["id"] == 1


async def test_a_result_that_is_no_text_fails_on_a_stream(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        exchange.notify("notifications/message", b"{}")
        with pytest.raises(Fault, match="UTF-8"):
            exchange.notify("notifications/message", b'"\xff\xfe"')
        exchange.result(b'"\xff\xfe"')
        await peer.answer()
        await peer.event()
        assert msgspec.json.decode((await peer.event())["data"])["error"]["data"]["name"] == "UPSTREAM_ERROR"


async def test_a_session_id_is_ignored(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, Mcp_Session_Id="no-such", Last_Event_ID="x.1"))
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Mcp-Name": "other"}, 400, -32020),
        ({"Mcp-Name": ""}, 400, -32020),
        ({"Mcp-Method": "tools/list"}, 400, -32020),
        ({"Mcp-Method": ""}, 400, -32020),
        ({"MCP-Protocol-Version": ""}, 400, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
    ],
)
async def test_headers_must_say_what_the_body_says(
    place: RunningEndpoint, headers: dict[str, str], status: int, code: int
) -> None:
    answer = await sent(place, modern(place.host, id=7, **headers))
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, code, 7)


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_space_around_a_header_value_is_no_part_of_it(place: RunningEndpoint, header: str) -> None:
    said = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}[header]
    async with place.peer() as peer:
        for padded in (f"  {said} \t", said, f"{said}  "):
            peer.send(modern(place.host, **{header: padded}))
            assert (await peer.answer()).status == 200, repr(padded)


async def test_an_unknown_version_is_answered_with_those_that_are_known(place: RunningEndpoint) -> None:
    data = modern(place.host).replace(MODERN.encode(), b"2099-01-01")
    answer = await sent(place, data)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
    assert answer.json["error"]["data"]["supported"] == [MODERN]


async def test_an_unknown_method_is_not_found(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, "unknown"))
    assert (answer.status, answer.json["error"]["code"]) == (404, -32601)
    answer = await sent(place, modern(place.host, method="initialize"))
    assert (answer.status, answer.json["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault("MISSING_CAPABILITY", "x"), 400),
        (Fault("METHOD_NOT_FOUND", "x"), 404),
        (Fault("AUTH_EXPIRED", "x"), 401),
        (Fault("INVALID_TOOL_ARGS", "x"), 200),
        (Fault("UPSTREAM_TIMEOUT", "x"), 200),
        (Fault("UPSTREAM_ERROR", "x", code=-32601), 404),
    ],
)
async def test_a_served_request_that_fails_has_the_status_the_revision_names(
    place: RunningEndpoint, fault: Fault, status: int
) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        (await place.service.next()).fail(fault)
        answer = await peer.answer()
    assert answer.status == status
    assert answer.json["error"]["message"] == "x"


async def test_an_error_of_a_server_behind_is_passed_on_as_it_came(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        (await place.service.next()).pass_failure(ErrorObject(-1, "odd", msgspec.Raw(b'{"a":[1]}')))
        answer = await peer.answer()
    assert answer.status == 200
    assert answer.json["error"] == {"code": -1, "message": "odd", "data": {"a": [1]}}


async def test_an_error_that_is_not_utf8_is_passed_on_with_its_bytes_replaced(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        (await place.service.next()).pass_failure(ErrorObject(-1, "a\udcff", msgspec.Raw(b'"\xff"')))
        answer = await peer.answer()
    assert answer.json["error"] == {"code": -1, "message": "a?", "data": "\ufffd"}


async def test_a_fault_of_the_service_is_an_internal_error(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, "broken", id=9))
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (200, -32603, 9)


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"x","\xff":1}', -32700, 3),
        (b'{"jsonrpc":"1.0","id":3,"method":"x"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"x","params":[]}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"id":4,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"Method":"x"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"server/discover"}', -32602, 3),
        (b'[{"jsonrpc":"2.0","id":3,"method":"x"}]', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"result":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}', -32600, 3),
    ],
)
async def test_what_cannot_be_taken_is_a_bad_request(
    place: RunningEndpoint, body: bytes, code: int, id: int | None
) -> None:
    answer = await sent(place, post(place.host, body))
    assert (answer.status, answer.json["error"]["code"], answer.json.get("id")) == (400, code, id)


async def test_the_connection_lives_on_after_a_bad_request(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(post(place.host, b"{") + modern(place.host))
        assert (await peer.answer()).status == 400
        assert (await peer.answer()).status == 200


async def test_a_notification_is_accepted(place: RunningEndpoint) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/other"}
    answer = await sent(place, post(place.host, message, {"MCP-Protocol-Version": MODERN}))
    assert (answer.status, answer.body) == (202, b"")
    assert [heard.method for heard in place.service.heard] == ["notifications/other"]


async def test_a_response_is_refused(place: RunningEndpoint) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {}}
    answer = await sent(place, post(place.host, message, {"MCP-Protocol-Version": MODERN, "Mcp-Session-Id": "x"}))
    assert answer.status == 400


@pytest.mark.parametrize("kind", ["text/plain", "", "application/json; charset=latin-1", "application/jsonx"])
async def test_only_json_is_taken(place: RunningEndpoint, kind: str) -> None:
    data = modern(place.host).replace(b"Content-Type: application/json", f"Content-Type: {kind}".encode())
    assert (await sent(place, data)).status == 415


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"']
)
async def test_json_may_name_its_charset(place: RunningEndpoint, kind: str) -> None:
    data = modern(place.host).replace(b"Content-Type: application/json", f"Content-Type: {kind}".encode())
    assert (await sent(place, data)).status == 200


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.9, application/json;q=0.1", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("application/json, text/event-stream;q=0", 406),
    ],
)
async def test_both_kinds_of_answer_must_be_welcome(place: RunningEndpoint, accept: str, status: int) -> None:
    assert (await sent(place, modern(place.host, Accept=accept))).status == status


async def test_no_accept_header_means_anything_is_welcome(place: RunningEndpoint) -> None:
    data = modern(place.host).replace(b"Accept: application/json, text/event-stream\r\n", b"")
    assert (await sent(place, data)).status == 200


async def test_who_is_not_admitted_is_told_how_to_be(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, id=5, Authorization="Bearer nobody"))
    assert (answer.status, answer.headers["www-authenticate"], answer.json["id"]) == (401, "Bearer", 5)


async def test_who_comes_too_often_is_told_when_to_come_back(place: RunningEndpoint) -> None:
    answer = await sent(place, modern(place.host, Authorization="Bearer busy"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert answer.json["error"]["data"]["retry_after_ms"] == 2500
