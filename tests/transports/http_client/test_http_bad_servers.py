"""Servers and networks that break, lie, stall or flood: the calls end clearly and nothing is sent twice."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_peer import LinkPeer, RecordingListener

from cases import each_case
from interlock.protocols.mcp.revisions import R2026_07_28
from interlock.transports.http.client.channel import RESPONSE_PIECE_BYTES
from interlock.transports.http.client.heads import HeadWriter, line
from interlock.transports.http.client.link import HttpLink
from interlock.transports.http.client.origin import Origin, split_url
from interlock.transports.http.client.response_headers import keep_alive_seconds
from interlock.transports.large_reading import VERY_LARGE, LargeReading
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from unread_answers import FEW_MEMBERS, IN_BATCHES, UNREAD
from waiting import until

SMALL = Limits(message_bytes=64 * 1024)


async def closing_after_the_first(visit) -> None:
    """Answers once, then hangs up on the next request of that connection without a word."""
    if visit.connection > 1 or visit.id == 1:
        await visit.result({"on": visit.connection})
    else:
        visit.hang_up()


async def test_an_idempotent_request_that_met_a_closing_connection_is_sent_again(at) -> None:
    linked = await at(closing_after_the_first)
    await linked.ask("tools/list")
    assert await linked.ask("tools/list") == {"on": 2}
    assert linked.web.methods() == ["tools/list"] * 3


async def test_a_tool_call_that_met_a_closing_connection_is_never_sent_again(at) -> None:
    linked = await at(closing_after_the_first)
    await linked.ask("tools/list")
    assert (await linked.lose("tools/call")).name == "OUTCOME_UNKNOWN"
    assert linked.web.methods().count("tools/call") == 1


async def test_a_request_is_sent_again_only_once_and_only_when_nothing_came_back(at) -> None:
    async def script(visit) -> None:
        if visit.id == 1:
            await visit.result()
        elif visit.id == 2:
            visit.hang_up()
        else:
            await visit.raw(b"HTTP/1.1 200 OK\r\n")
            visit.hang_up()

    linked = await at(script)
    await linked.ask("tools/list")
    assert (await linked.lose("tools/list")).name == "OUTCOME_UNKNOWN"
    assert linked.web.methods() == ["tools/list"] * 3
    assert (await linked.lose("tools/list")).name == "OUTCOME_UNKNOWN"
    assert linked.web.methods() == ["tools/list"] * 4


async def test_a_server_that_is_not_there_was_never_asked() -> None:
    closing_server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closing_server.sockets[0].getsockname()[1]
    closing_server.close()
    await closing_server.wait_closed()
    listener = RecordingListener()
    link = HttpLink(f"http://127.0.0.1:{port}/", listener)
    fault = await LinkPeer(None, link, listener).lose()
    assert fault.name == "UPSTREAM_UNAVAILABLE"
    assert f"127.0.0.1:{port}: connection refused; no program listens there" in fault.message
    await link.close()


async def test_a_name_that_does_not_resolve_is_told_so() -> None:
    listener = RecordingListener()
    link = HttpLink("http://nohost.invalid/", listener)
    fault = await LinkPeer(None, link, listener).lose()
    assert fault.name == "UPSTREAM_UNAVAILABLE"
    assert "nohost.invalid: the name does not resolve; check its spelling" in fault.message
    await link.close()


BROKEN = {
    "not http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN.keys())
async def test_a_response_that_is_no_http_loses_the_request(at, sent: bytes) -> None:
    async def script(visit) -> None:
        await visit.raw(sent)
        await visit.gone()

    linked = await at(script)
    assert (await linked.lose()).name == "OUTCOME_UNKNOWN"


WRONG = {
    "another id": (b'{"jsonrpc":"2.0","id":99,"result":{}}', "application/json"),
    "an id as text": (b'{"jsonrpc":"2.0","id":"1","result":{}}', "application/json"),
    "no message": (b"[1,2]", "application/json"),
    "no json": (b"<html>", "application/json"),
    "a request": (b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}', "application/json"),
    "a page": (b"<html>hello</html>", "text/html"),
    "nothing": (b"", "application/json"),
}


@pytest.mark.parametrize(("body", "kind"), WRONG.values(), ids=WRONG.keys())
async def test_an_answer_that_is_none_fails_its_own_request(at, body: bytes, kind: str) -> None:
    async def script(visit) -> None:
        if visit.message.get("method") == "tools/call":
            await visit.reply(200, body, Content_Type=kind)
        elif "method" in visit.message:
            await visit.result()
        else:
            await visit.reply(202)

    linked = await at(script)
    assert (await linked.lose()).name == "UPSTREAM_ERROR"
    assert await linked.ask("tools/list") == {}


@pytest.mark.parametrize("streamed", [False, True], ids=["JSON", "SSE"])
@pytest.mark.parametrize(("message", "reason"), (UNREAD | IN_BATCHES).values(), ids=UNREAD | IN_BATCHES)
async def test_the_caller_gets_the_reason_why_an_answer_cannot_be_read(
    at, message: bytes, reason: str, streamed: bool
) -> None:
    async def script(visit) -> None:
        body = message % visit.id
        if not streamed:
            await visit.reply(200, body, Content_Type="application/json")
            return
        await visit.stream()
        await visit.chunk(b"data: " + body + b"\n\n")
        await visit.gone()  # the call does not wait for the end of the stream

    fault = await (await at(script, limits=FEW_MEMBERS)).lose()
    assert (fault.name, fault.message.partition(reason)[0]) == ("UPSTREAM_ERROR", "its answer cannot be read: ")
    assert reason in fault.message


async def test_a_stream_that_ends_behind_an_unreadable_event_says_why_it_was_unreadable(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        await visit.chunk(b'data: {"jsonrpc":"2.0","result":{},"id":\n\n')
        await visit.end()

    fault = await (await at(script)).lose()
    assert fault.name == "OUTCOME_UNKNOWN"
    assert fault.message.startswith("the response stream ended without the answer: its answer cannot be read: not JSON")


async def test_an_unreadable_event_of_another_request_ends_nobodys_call(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        await visit.chunk(b'data: {"jsonrpc":"2.0","id":%d,"result":{},"result":{}}\n\n' % (visit.id + 7))
        await visit.answer({"n": 1})
        await visit.end()

    assert await (await at(script)).ask() == {"n": 1}


async def test_a_compressed_answer_is_refused(at) -> None:
    async def script(visit) -> None:
        await visit.result(Content_Encoding="gzip")

    assert "compressed" in (await (await at(script)).lose()).message


async def test_an_answer_over_the_limit_fails_its_own_request(at) -> None:
    async def script(visit) -> None:
        await visit.result({"x": "y" * 100_000})

    assert "(`message_bytes`)" in (await (await at(script, limits=SMALL)).lose()).message


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("length", [SMALL.message_bytes + 1, 10**12, 10**18])
async def test_an_answer_that_announces_more_than_the_limit_fails_before_any_of_it_comes(
    at, status: int, length: int
) -> None:
    async def script(visit) -> None:
        kind = "Content-Type: application/json\r\n"
        await visit.raw(f"HTTP/1.1 {status} So\r\n{kind}Content-Length: {length}\r\n\r\n".encode())
        await asyncio.Event().wait()

    fault = await (await at(script, limits=SMALL)).lose()
    assert (fault.name, f"over the limit of {SMALL.message_bytes} bytes" in fault.message) == ("UPSTREAM_ERROR", True)


async def test_an_event_over_the_limit_fails_its_own_request(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        await visit.chunk(b"data: " + b"x" * 100_000)
        await visit.gone()

    assert "(`message_bytes`)" in (await (await at(script, limits=SMALL)).lose()).message


async def test_a_body_that_drips_for_ever_ends_by_the_deadline(at) -> None:
    async def script(visit) -> None:
        await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        while True:
            await visit.raw(b" ")
            await asyncio.sleep(0.01)

    linked = await at(script)
    assert (await linked.lose(seconds=0.2)).name == "UPSTREAM_TIMEOUT"


async def test_rubbish_on_a_stream_is_reported_and_bounded(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        for _ in range(50):
            await visit.chunk(b"data: rubbish\n\n" * 100)
        await visit.answer()
        await visit.end()

    linked = await at(script)
    assert (await linked.lose()).name == "UPSTREAM_ERROR"
    assert 0 < len(linked.listener.lines) < 50


async def test_a_response_that_nobody_asked_for_is_never_taken_for_an_answer(at) -> None:
    async def script(visit) -> None:
        forged = b'{"jsonrpc":"2.0","id":2,"result":{"forged":true}}'
        extra = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(forged)
        await visit.result({"on": visit.connection})
        if visit.id == 1:
            await visit.raw(extra + forged)

    linked = await at(script)
    assert await linked.ask() == {"on": 1}
    await until(lambda: not linked.web.open)  # the client has read the second response, and hung up
    assert await linked.ask() == {"on": 2}


async def test_a_response_glued_to_another_is_never_taken_for_an_answer(at) -> None:
    async def script(visit) -> None:
        if visit.id > 1:
            await visit.result({"on": visit.connection})
            return
        good, forged = (b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number for number in (1, 2))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        await visit.raw(head % len(good) + good + head % len(forged) + forged)

    linked = await at(script)
    assert await linked.ask() == {}
    assert await linked.ask() == {"on": 2}


async def test_interim_responses_are_passed_over(at) -> None:
    async def script(visit) -> None:
        await visit.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await visit.result({"n": 1})

    linked = await at(script)
    assert await linked.ask() == {"n": 1}
    assert await linked.ask() == {"n": 1}
    assert linked.web.connections == 1


async def test_a_body_may_end_with_the_connection(at) -> None:
    async def script(visit) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}' % (visit.id, visit.id)
        await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        visit.hang_up()

    linked = await at(script)
    assert await linked.ask() == {"n": 1}
    assert await linked.ask() == {"n": 2}


async def test_a_cut_body_is_no_answer(at) -> None:
    async def script(visit) -> None:
        body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1)
        await visit.raw(head + body)
        visit.hang_up()

    assert (await (await at(script)).lose()).name == "OUTCOME_UNKNOWN"


async def test_nothing_is_left_behind(at) -> None:
    async def script(visit) -> None:
        if visit.id % 2:
            await visit.result()

    async def one() -> None:
        linked = await at(script)
        await linked.ask()
        linked.start()
        linked.link.listen()
        await linked.link.close()
        await until(lambda: not linked.web.open)

    await one()
    gc.collect()
    before = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await one()
    gc.collect()
    await until(lambda: len(asyncio.all_tasks()) <= before[0])
    # Each round leaves the listening socket of its own test server open until the test ends.
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before[1] + 3)


@each_case(
    ("name", "value"),
    [
        ("X-A", "a\r\nX-B: c"),
        ("X-A", "a\nb"),
        ("X-A", "a\0"),
        ("X-A", " padded"),
        ("X A", "a"),
        ("X\r\n", "a"),
        ("Host", "evil"),
        ("content-length", "0"),
        ("Mcp-Session-Id", "s"),
        ("Transfer-Encoding", "chunked"),
    ],
)
def test_a_header_that_could_change_the_request_is_refused_at_the_start(name: str, value: str) -> None:
    with pytest.raises(Fault):
        HeadWriter(Origin("http", "h", 80), "/", {name: value})


@given(st.text(), st.text())
def test_no_name_or_value_makes_more_than_one_header_line(name: str, value: str) -> None:
    try:
        made = line(name, value)
    except (Fault, UnicodeEncodeError):
        return
    assert made.count(b"\r") == made.count(b"\n") == 1
    assert made.endswith(b"\r\n")


@given(st.text(min_size=1), st.text())
def test_no_tool_name_or_parameter_makes_more_than_one_header_line(name: str, value: str) -> None:
    from interlock.protocols.mcp.headers import encode_value

    heads = HeadWriter(Origin("http", "h", 80), "/", {})
    heads.speak(R2026_07_28)
    try:
        encoded = encode_value(value)
    except UnicodeEncodeError:
        return
    try:
        head = heads.request(1, "tools/call", b"{}", name, (("Mcp-Param-X", encoded),))
    except UnicodeEncodeError:
        return
    assert head.count(b"\r\n") == head.count(b"\n") == heads.request(1, "tools/call", b"{}", "x").count(b"\n") + 1


@each_case(
    ("said", "seconds"),
    [(b"timeout=5", 4.0), (b"max=3, timeout=30", 29.0), (b"timeout=100000", 4.0), (b"timeout=0", 0.0), (b"x", 4.0)],
)
def test_a_connection_is_kept_for_as_long_as_the_server_says_and_no_longer_than_a_minute(
    said: bytes, seconds: float
) -> None:
    assert keep_alive_seconds(said) == seconds
    assert keep_alive_seconds(b"timeout=9999") == 60.0


@each_case("session", ["", "a b", "a\r\nb", "ä", "x" * 2000])
def test_a_session_id_must_be_visible_ascii(session: str) -> None:
    heads = HeadWriter(Origin("http", "h", 80), "/", {})
    with pytest.raises(Fault):
        heads.join_session(session)


@each_case(
    "url",
    [
        "ftp://x/",
        "file:///etc/passwd",
        "http://",
        "http://u:p@x/",
        "http://x:99999/",
        "http://x/a b",
        "x",
        "http://x/é",
        "http://é.example/",
    ],
)
def test_only_plain_http_addresses_are_taken(url: str) -> None:
    with pytest.raises(Fault):
        split_url(url)


def test_an_address_is_taken_apart() -> None:
    assert split_url("https://[::1]:8443/mcp?x=1#frag") == (Origin("https", "::1", 8443), "/mcp?x=1")
    assert split_url("http://h")[0].authority == "h"
    assert Origin("https", "::1", 8443).authority == "[::1]:8443"


NOTE = b'data: {"jsonrpc":"2.0","method":"x"}\n\n'


async def test_a_stream_is_gone_through_a_little_at_a_time_and_nothing_of_it_is_lost(at) -> None:
    async def script(visit) -> None:
        if visit.message["method"] == "resources/list":
            await visit.result({"x": 1})
            return
        await visit.stream()
        await visit.chunk(NOTE)
        await until(lambda: linked.notes)
        await visit.chunk(NOTE * 10_000)
        await visit.answer()
        await visit.end()

    linked = await at(script)
    loop, most = asyncio.get_running_loop(), 0
    call = linked.start()
    while not call.future.done():
        before = len(linked.notes)
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn
        most = max(most, len(linked.notes) - before)
        if len(linked.notes) % 7 == 0:
            assert await linked.ask("resources/list") == {"x": 1}
    assert len(linked.notes) == 10_001
    assert most < 1_000, "one read of the socket holds thousands"


async def test_what_follows_a_stream_in_the_same_breath_is_no_answer_to_the_next_request(at) -> None:
    async def script(visit) -> None:
        if visit.connection > 1:
            await visit.result({"from": "its own connection"})
            return
        await visit.stream()
        await visit.chunk(NOTE)
        await until(lambda: linked.notes)
        answer = b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\n\n' % visit.id
        forged = b'{"jsonrpc":"2.0","id":%d,"result":{"from":"a forger"}}' % (visit.id + 1)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(forged)
        padding = RESPONSE_PIECE_BYTES - len(b"fff\r\n" + answer + b":\n\r\n0\r\n\r\n")
        event = answer + b":" + b" " * padding + b"\n"  # so the response ends where a piece of what is read does
        await visit.raw(b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event) + head + forged)

    linked = await at(script, connections=1)
    first, second = linked.start(), linked.start()
    await first.future
    answer = await second.future
    assert b"forger" not in answer.result


async def test_a_large_answer_does_not_wait_for_a_very_large_one_of_another_peer(at) -> None:
    go_on = threading.Event()

    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    linked = await at(lambda visit: visit.result({"text": "x" * 200_000}))
    LargeReading.here().work("another", bytes(2 * VERY_LARGE), wait, lambda _: None)
    try:
        async with asyncio.timeout(30):
            assert len((await linked.ask("tools/list"))["text"]) == 200_000
    finally:
        go_on.set()


async def test_t37_events_behind_a_large_one_have_a_bound_of_bytes(at) -> None:
    go_on = threading.Event()

    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    async def script(visit) -> None:
        await visit.stream()
        event = b'data: {"jsonrpc":"2.0","method":"notifications/x","params":{"text":"%b"}}\n\n'
        await visit.chunk(event % (b"x" * 100_000))
        for _ in range(40):
            await visit.chunk(event % (b"x" * 50_000))
        await visit.gone()

    linked = await at(script, limits=Limits(message_bytes=200_000))
    LargeReading.here().work("another", b"", wait, lambda _: None)
    try:
        assert "more than can be read" in (await linked.lose()).message
    finally:
        go_on.set()
