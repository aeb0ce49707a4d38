"""Revisions 2025-03-26 to 2025-11-25 over HTTP: sessions, streams that can be resumed, clients that can be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from http_peer import Client, Peer, RunningEndpoint, WaitingService, call, opened, post, request

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.sessions.registry import SessionLimits
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits


def cancelled(id: float | str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}


async def data(peer: Peer) -> dict[str, object]:
    """The message of the next event that has one."""
    while True:
        event = await peer.event()
        if event.get("data"):
            found: dict[str, object] = msgspec.json.decode(event["data"])
            return found
        assert event, "the stream is over"


async def test_initialize_opens_a_session(place: RunningEndpoint) -> None:
    client = await place.handshake()
    session = place.service.sessions[0]
    assert client.headers["Mcp-Session-Id"] == session.id
    assert len(session.id) >= 22, "at least 128 bits"
    assert session.initialized
    assert [heard.method for heard in place.service.heard] == ["notifications/initialized"]


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")],
)
async def test_the_revision_is_agreed(place: RunningEndpoint, asked: str, agreed: str) -> None:
    client = Client(place, "anyone", asked)
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    assert answer.json["result"]["protocolVersion"] == agreed


async def test_an_initialize_that_cannot_be_read_opens_nothing(place: RunningEndpoint) -> None:
    client = Client(place, "anyone", "x")
    answer = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    assert (answer.status, answer.json["error"]["code"]) == (400, -32602)
    assert "mcp-session-id" not in answer.headers
    assert len(place.endpoint.sessions) == 0


async def test_requests_of_a_session_are_served(place: RunningEndpoint) -> None:
    client = await place.handshake()
    answer = await client.post(call("echo", id="x"))
    assert (answer.status, answer.json["id"], answer.json["result"]) == (200, "x", {"said": "echo"})


async def test_ping_is_answered_here(place: RunningEndpoint) -> None:
    client = await place.handshake()
    assert (await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).json["result"] == {}
    assert place.service.asked.empty()


async def test_a_served_request_that_fails_is_answered_200(place: RunningEndpoint) -> None:
    client = await place.handshake()
    answer = await client.post(call("unknown"))
    assert (answer.status, answer.json["error"]["code"]) == (200, -32601)


async def test_a_request_without_session_is_a_bad_request(place: RunningEndpoint) -> None:
    client = Client(place, "anyone", "2025-11-25")
    assert (await client.post(call("echo"))).status == 400


async def test_a_version_that_is_not_spoken_is_a_bad_request(place: RunningEndpoint) -> None:
    client = await place.handshake()
    client.headers["MCP-Protocol-Version"] = "1999-01-01"
    assert (await client.post(call("echo"))).status == 400


async def test_another_principals_session_is_as_unknown_as_none(place: RunningEndpoint) -> None:
    alice, mallory = await place.handshake(principal_name="alice"), await place.handshake(principal_name="mallory")
    stolen = {**mallory.headers, "Mcp-Session-Id": alice.headers["Mcp-Session-Id"]}
    guessed = {**mallory.headers, "Mcp-Session-Id": "a" * 32}
    for message in (call("echo"), cancelled(1), {"jsonrpc": "2.0", "id": 1, "result": {}}):
        answers = []
        for headers in (stolen, guessed):
            mallory.headers = headers
            answers.append(await mallory.post(message))
        assert [answer.status for answer in answers] == [404, 404]
        assert answers[0].body == answers[1].body
    for method in ("GET", "DELETE"):
        async with place.peer() as peer:
            peer.send(request(method, place.host, stolen))
            assert (await peer.answer()).status == 404
    assert (await alice.post(call("echo"))).status == 200


async def test_delete_ends_the_session_and_what_is_open_in_it(place: RunningEndpoint) -> None:
    client = await place.handshake()
    listening = await client.listen()
    await listening.answer()
    waiting = await client.open(call("slow"))
    exchange = await place.service.next()
    reasons: list[str] = []
    exchange.on_cancel = reasons.append
    async with place.peer() as peer:
        peer.send(request("DELETE", place.host, client.headers))
        assert (await peer.answer()).status == 204
    assert place.service.over == place.service.sessions
    assert reasons == ["the client ended the session"]
    answer = await waiting.answer()
    assert (answer.json["id"], answer.json["error"]["data"]["name"]) == (1, "SESSION_UNKNOWN")
    while await listening.event():
        pass
    assert (await client.post(call("echo"))).status == 404


async def test_an_id_in_use_cannot_be_used_again(place: RunningEndpoint) -> None:
    client = await place.handshake()
    first = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    answer = await client.post(call("echo", id=1))
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32600, 1)
    exchange.result(b"{}")
    assert (await first.answer()).status == 200
    assert (await client.post(call("echo", id=1))).status == 200


async def test_two_sessions_may_use_the_same_id(place: RunningEndpoint) -> None:
    one, two = await place.handshake(), await place.handshake()
    first, second = await one.open(call("slow", id=1)), await two.open(call("slow", id=1))
    exchanges = [await place.service.next(), await place.service.next()]
    by_session = {exchange.session: exchange for exchange in exchanges}
    by_session[place.service.sessions[0]].result(b"1")
    by_session[place.service.sessions[1]].result(b"2")
    assert (await first.answer()).json["result"] == 1
    assert (await second.answer()).json["result"] == 2


async def test_cancelling_withdraws_the_request(place: RunningEndpoint) -> None:
    client = await place.handshake()
    waiting = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    reasons: list[str] = []
    exchange.on_cancel = reasons.append
    assert (await client.post(cancelled(2))).status == 202
    assert reasons == []
    assert (await client.post(cancelled(1))).status == 202
    assert reasons == ["enough"]
    exchange.result(b"{}")
    answer = await waiting.answer()
    assert (answer.status, answer.body) == (202, b"")


async def test_cancelling_ends_the_stream(place: RunningEndpoint) -> None:
    client = await place.handshake()
    waiting = await client.open(call("slow", id=1))
    (await place.service.next()).notify("notifications/message", b"{}")
    await waiting.answer()
    await data(waiting)
    await client.post(cancelled(1.0))
    assert await waiting.event() == {}


@pytest.mark.parametrize(("version", "primed"), [("2025-11-25", True), ("2025-06-18", False), ("2025-03-26", False)])
async def test_a_stream_is_primed_where_clients_understand_it(
    place: RunningEndpoint, version: str, primed: bool
) -> None:
    client = await place.handshake(version)
    peer = await client.open(call("slow"))
    exchange = await place.service.next()
    exchange.notify("notifications/message", b"{}")
    assert (await peer.answer()).streams
    first = await peer.event()
    assert "id" in first
    if primed:
        assert (first["data"], first["retry"]) == ("", "1000")
        first = await peer.event()
    assert msgspec.json.decode(first["data"])["method"] == "notifications/message"
    exchange.result(b"{}")
    last = await peer.event()
    assert msgspec.json.decode(last["data"])["result"] == {}
    assert last["id"] != first["id"]
    assert await peer.event() == {}


async def test_a_stream_that_was_cut_is_resumed_where_it_was(place: RunningEndpoint) -> None:
    client = await place.handshake()
    peer = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    cancels: list[str] = []
    exchange.on_cancel = cancels.append
    exchange.notify("notifications/message", b'{"n":1}')
    await peer.answer()
    await peer.event()
    seen = (await peer.event())["id"]
    exchange.notify("notifications/message", b'{"n":2}')
    await peer.close()
    exchange.notify("notifications/message", b'{"n":3}')
    back = await client.listen(seen)
    assert (await back.answer()).streams
    assert (await data(back))["params"] == {"n": 2}
    assert (await data(back))["params"] == {"n": 3}
    exchange.notify("notifications/message", b'{"n":4}')
    assert (await data(back))["params"] == {"n": 4}
    exchange.result(b'{"at":"last"}')
    assert (await data(back))["result"] == {"at": "last"}
    assert await back.event() == {}
    assert cancels == [], "a cut connection cancels nothing in this era"


async def test_an_answer_given_while_the_client_was_away_is_replayed(place: RunningEndpoint) -> None:
    client = await place.handshake()
    peer = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    exchange.notify("notifications/message", b"{}")
    await peer.answer()
    primer = (await peer.event())["id"]
    await peer.close()
    exchange.result(b'{"at":"last"}')
    for _ in range(2):
        back = await client.listen(primer)
        await back.answer()
        assert (await data(back))["method"] == "notifications/message"
        assert (await data(back))["result"] == {"at": "last"}
        assert await back.event() == {}


async def test_an_event_id_of_another_session_replays_nothing(place: RunningEndpoint) -> None:
    alice, mallory = await place.handshake(principal_name="alice"), await place.handshake(principal_name="mallory")
    peer = await alice.open(call("slow"))
    exchange = await place.service.next()
    exchange.notify("notifications/message", b'{"secret":1}')
    await peer.answer()
    primer = (await peer.event())["id"]
    stolen = await mallory.listen(primer)
    assert (await stolen.answer()).status == 405, "as for a stream that is over"


async def test_a_client_that_comes_back_to_a_stream_that_is_over_is_told_to_stop(place: RunningEndpoint) -> None:
    client = await place.handshake()
    peer = await client.open(call("slow"))
    exchange = await place.service.next()
    exchange.notify("notifications/message", b'{"n":1}')
    await peer.answer()
    primer = (await peer.event())["id"]
    exchange.result(b"{}")
    assert (await peer.event())["data"]
    last = await peer.event()
    assert await peer.event() == {}
    for _ in range(2):
        back = await client.listen(last["id"])
        assert (await back.answer()).status == 405
    missed = await client.listen(primer)
    assert (await missed.answer()).streams, "what was missed is still told"
    for event in range(300):
        place.service.sessions[0].notify("notifications/message", b'{"n":%d}' % event)
    forgotten = await client.listen(primer)
    assert (await forgotten.answer()).status == 405, "also once nothing of it is kept"
    standalone = await client.listen()
    assert (await standalone.answer()).streams


@pytest.mark.parametrize("last", ["", "x", ".", "x.1", "x.99999999999999999999", "a.-1", "\xe9.1"])
async def test_an_event_id_that_is_none_opens_the_standalone_stream(place: RunningEndpoint, last: str) -> None:
    client = await place.handshake()
    peer = await place.connect()
    raw = request("GET", place.host, client.headers)
    peer.send(raw[:-2] + b"Last-Event-ID: " + last.encode("latin-1") + b"\r\n\r\n")
    assert (await peer.answer()).streams
    place.service.sessions[0].notify("notifications/message", b"{}")
    assert (await data(peer))["method"] == "notifications/message"


async def test_the_standalone_stream_carries_what_belongs_to_no_request(place: RunningEndpoint) -> None:
    client = await place.handshake()
    session = place.service.sessions[0]
    session.notify("notifications/message", b'{"n":1}')
    first = await client.listen()
    assert (await first.answer()).streams
    assert (await data(first))["params"] == {"n": 1}, "what was said before is kept"
    session.notify("notifications/message", b'{"n":2}')
    assert (await data(first))["params"] == {"n": 2}
    second = await client.listen()
    await second.answer()
    assert await first.event() == {}, "the newest listener is the one"
    session.notify("notifications/message", b'{"n":3}')
    assert (await data(second))["params"] == {"n": 3}, "nothing is said twice"


async def test_replay_keeps_no_more_than_it_may() -> None:
    async with opened(WaitingService(), HttpBounds(replay_events=3)) as place:
        client = await place.handshake()
        for number in range(10):
            place.service.sessions[0].notify("notifications/message", b'{"n":%d}' % number)
        peer = await client.listen()
        await peer.answer()
        assert [(await data(peer))["params"] for _ in range(3)] == [{"n": 7}, {"n": 8}, {"n": 9}]


async def test_the_client_is_asked_on_the_requests_own_stream(place: RunningEndpoint) -> None:
    client = await place.handshake(roots={})
    peer = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    roots = exchange.ask("roots/list", b"{}")
    assert (await peer.answer()).streams
    asked = await data(peer)
    assert asked["method"] == "roots/list"
    answer = await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
    assert (answer.status, answer.body) == (202, b"")
    assert await asyncio.wait_for(roots, 120) == b'{"roots":[]}'
    exchange.result(b"{}")
    assert (await data(peer))["id"] == 1


async def test_a_client_may_refuse_what_it_is_asked(place: RunningEndpoint) -> None:
    client = await place.handshake(sampling={})
    peer = await client.open(call("slow", id=1))
    sampling = (await place.service.next()).ask("sampling/createMessage", b"{}")
    await peer.answer()
    asked = await data(peer)
    error = {"code": -1, "message": "the user said no", "data": {"why": "x"}}
    await client.post({"jsonrpc": "2.0", "id": asked["id"], "error": error})
    with pytest.raises(Fault, match="the user said no") as refused:
        await asyncio.wait_for(sampling, 120)
    assert refused.value.foreign_code == -1
    assert refused.value.data == {"why": "x"}


async def test_a_client_is_not_asked_what_it_did_not_say_it_answers(place: RunningEndpoint) -> None:
    client = await place.handshake(elicitation={})
    peer = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    with pytest.raises(Fault) as refused:
        exchange.ask("sampling/createMessage", b"{}")
    assert refused.value.name == "MISSING_CAPABILITY"
    assert refused.value.data == {"requiredCapabilities": {"sampling": {}}}
    exchange.result(b"{}")
    assert not (await peer.answer()).streams


async def test_a_client_that_went_before_it_heard_of_a_stream_cannot_be_asked(place: RunningEndpoint) -> None:
    client = await place.handshake(roots={})
    async with place.peer() as peer:
        peer.send(post(place.host, call("slow"), client.headers))
        exchange = await place.service.next()
    await client.post(call("echo", id=2))  # by now the server has seen it go
    with pytest.raises(Fault, match="went before"):
        exchange.ask("roots/list", b"{}")
    exchange.notify("notifications/message", b"{}")
    exchange.result(b"{}")
    assert not exchange.open


async def test_another_principal_cannot_answer_for_the_client(place: RunningEndpoint) -> None:
    alice, mallory = (
        await place.handshake(principal_name="alice", roots={}),
        await place.handshake(principal_name="mallory", roots={}),
    )
    peer = await alice.open(call("slow", id=1))
    roots = (await place.service.next()).ask("roots/list", b"{}")
    await peer.answer()
    asked = await data(peer)
    assert (await mallory.post({"jsonrpc": "2.0", "id": asked["id"], "result": {}})).status == 202
    assert not roots.done()


async def test_what_was_asked_is_withdrawn_with_the_request(place: RunningEndpoint) -> None:
    client = await place.handshake(roots={})
    peer = await client.open(call("slow", id=1))
    exchange = await place.service.next()
    roots = exchange.ask("roots/list", b"{}")
    await peer.answer()
    asked = await data(peer)
    exchange.result(b"{}")
    assert roots.cancelled()
    withdrawn = await data(peer)
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == asked["id"]  # type: ignore[index]
    assert (await data(peer))["id"] == 1


async def test_a_session_can_ask_on_the_standalone_stream(place: RunningEndpoint) -> None:
    client = await place.handshake(roots={})
    session = place.service.sessions[0]
    with pytest.raises(Fault, match="no open stream"):
        session.ask("roots/list", b"{}")
    peer = await client.listen()
    await peer.answer()
    roots = session.ask("roots/list", b"{}")
    asked = await data(peer)
    await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
    assert await asyncio.wait_for(roots, 120) == b'{"roots":[]}'


async def test_a_batch_is_answered_with_an_array(place: RunningEndpoint) -> None:
    client = await place.handshake("2025-03-26")
    note = {"jsonrpc": "2.0", "method": "notifications/other"}
    initialize = {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}}
    sent = await client.open([call("echo", id=1), note, call("slow", id=2), {"bad": 1}, call("echo", id=1), initialize])
    (await place.service.next()).result(b"{}")
    answer = await sent.answer()
    assert answer.status == 200
    by_id = [(item.get("id"), "result" in item) for item in answer.json]
    assert sorted(by_id, key=str) == sorted([(1, True), (1, True), (2, True), (4, False), (None, False)], key=str)
    assert place.service.heard[-1].method == "notifications/other"


async def test_a_batch_becomes_a_stream_at_the_first_notification(place: RunningEndpoint) -> None:
    client = await place.handshake("2025-03-26")
    peer = await client.open([call("echo", id=1), call("slow", id=2)])
    exchange = await place.service.next()
    exchange.notify("notifications/message", b"{}")
    assert (await peer.answer()).streams
    assert (await data(peer))["id"] == 1
    assert (await data(peer))["method"] == "notifications/message"
    exchange.result(b"{}")
    assert (await data(peer))["id"] == 2
    assert await peer.event() == {}


async def test_a_batch_of_notifications_is_accepted(place: RunningEndpoint) -> None:
    client = await place.handshake("2025-03-26")
    answer = await client.post([{"jsonrpc": "2.0", "method": "notifications/other"}])
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_other_revisions_have_no_batches(place: RunningEndpoint, version: str) -> None:
    client = await place.handshake(version)
    assert (await client.post([call("echo")])).status == 400


@pytest.mark.parametrize("count", [0, 5])
async def test_a_batch_has_at_least_one_message_and_not_too_many(count: int) -> None:
    async with opened(WaitingService(), limits=Limits(batch=4)) as place:
        client = await place.handshake("2025-03-26")
        assert (await client.post([call("echo", id=i) for i in range(count)])).status in (400, 413)


async def test_a_listener_must_welcome_streams(place: RunningEndpoint) -> None:
    client = await place.handshake()
    async with place.peer() as peer:
        peer.send(request("GET", place.host, client.headers | {"Accept": "application/json"}))
        assert (await peer.answer()).status == 406


async def test_the_longest_idle_session_gives_its_place_to_a_new_one() -> None:
    async with opened(WaitingService(SessionLimits(total=3, per_principal=2))) as place:
        first, second = await place.handshake(principal_name="a"), await place.handshake(principal_name="a")
        await first.post(call("echo"))
        third = await place.handshake(principal_name="a")
        assert [(await each.post(call("echo"))).status for each in (first, second, third)] == [200, 404, 200]
        other = await place.handshake(principal_name="b")
        newest = await place.handshake(principal_name="c")
        statuses = [(await each.post(call("echo"))).status for each in (first, third, other, newest)]
        assert statuses == [404, 200, 200, 200]


async def test_a_session_with_an_open_call_keeps_its_place() -> None:
    async with opened(WaitingService(SessionLimits(total=3, per_principal=2))) as place:
        busy = [await place.handshake(principal_name="a") for _ in range(2)]
        waiting = [await client.open(call("slow")) for client in busy]
        exchanges = [await place.service.next() for _ in busy]
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        answer = await Client(place, "a", "2025-11-25").post(initialize)
        assert (answer.status, answer.headers["retry-after"], answer.json["id"]) == (503, "10", 1)
        await place.handshake(principal_name="b")
        for exchange, peer in zip(exchanges, waiting, strict=True):
            exchange.result(b"{}")
            assert (await peer.answer()).status == 200


async def test_the_open_calls_of_an_ended_session_are_cancelled_and_answered(place: RunningEndpoint) -> None:
    client = await place.handshake()
    waiting = await client.open(call("slow", id=7))
    exchange = await place.service.next()
    reasons: list[str] = []
    exchange.on_cancel = reasons.append
    place.service.registry.end(place.service.sessions[0], SessionEvent.TERMINATE, "an operator ended it")
    answer = await waiting.answer()
    assert (answer.json["id"], "an operator ended it" in answer.json["error"]["message"]) == (7, True)
    assert len(reasons) == 1
    assert (await client.post(call("echo"))).status == 404
    assert len(place.endpoint.sessions) == len(place.service.registry) == 0


async def test_a_session_that_nobody_uses_ends() -> None:
    async with opened(WaitingService(), HttpBounds(session_idle_s=0.1, linger_s=0.1)) as place:
        idle, listening, calling = [await place.handshake() for _ in range(3)]
        peer = await listening.listen()
        await peer.answer()
        waiting = await calling.open(call("slow"))
        exchange = await place.service.next()
        await asyncio.wait_for(place.service.one_over.wait(), 120)
        assert place.service.over == [place.service.sessions[0]]
        assert (await idle.post(call("echo"))).status == 404
        exchange.result(b"{}")
        assert (await waiting.answer()).status == 200


async def test_a_service_that_refuses_a_session_leaves_none(place: RunningEndpoint) -> None:
    def refuse(*_: object) -> Any:
        raise Fault("ACCESS_DENIED", "not you")

    place.service.open_session = refuse  # type: ignore[method-assign]
    client = Client(place, "a", "2025-11-25")
    params = {"protocolVersion": "2025-11-25"}
    answer = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    assert (answer.status, answer.json["id"]) == (403, 1)
    assert len(place.endpoint.sessions) == 0


async def test_an_unreadable_cancellation_is_a_bad_request(place: RunningEndpoint) -> None:
    client = await place.handshake()
    answer = await client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
    assert answer.status == 400
    async with place.peer() as peer:
        peer.send(post(place.host, call("echo"), client.headers))
        assert (await peer.answer()).status == 200
