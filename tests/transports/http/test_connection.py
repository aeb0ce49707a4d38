"""One connection: order, waiting, patience and its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from typing import Any

import msgspec
import pytest
from http_peer import RunningEndpoint, WaitingService, app, call, modern, opened, post
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.transports.exchange import AdmittedCaller
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.asgi_application import AsgiApplication
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.guard import allowed_hosts_for
from interlock.transports.http.server.listener import HttpListener, mcp_paths
from interlock.transports.http.server.serve import start
from interlock.wire.limits import DEFAULT, Limits
from waiting import until

IMPATIENT = HttpBounds(head_s=0.2, body_s=0.2, idle_s=0.2, stall_s=0.3, linger_s=0.2)


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param and sys.platform == "win32":
        pytest.skip("there is no uvloop")
    return "asyncio", {"use_uvloop": request.param}


def get(path: str, host: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_a_connection_serves_one_request_after_the_other(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        for number in range(3):
            peer.send(modern(place.host, id=number))
            assert (await peer.answer()).json["id"] == number


async def test_pipelined_requests_of_both_kinds_are_answered_in_order(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow", id=1) + get("/a", place.host) + modern(place.host, id=2))
        peer.send(get("/b", place.host) + get("/c", place.host) + modern(place.host, "slow", id=3))
        (await place.service.next()).result(b"{}")
        assert (await peer.answer()).json["id"] == 1
        assert (await peer.answer()).body == b"/a "
        assert (await peer.answer()).json["id"] == 2
        assert (await peer.answer()).body == b"/b "
        assert (await peer.answer()).body == b"/c "
        (await place.service.next()).result(b"{}")
        assert (await peer.answer()).json["id"] == 3


async def test_a_request_behind_a_chunked_one_to_the_app_may_come_in_two_pieces(place: RunningEndpoint) -> None:
    chunked = f"POST /app HTTP/1.1\r\nHost: {place.host}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    behind = modern(place.host, id=7)
    async with place.peer() as peer:
        peer.send(chunked.encode() + behind[:-5])
        assert (await peer.answer()).body == b"/app hi"
        peer.send(behind[-5:])
        assert (await peer.answer()).json["id"] == 7


async def test_a_pipelined_request_is_not_begun_before_the_one_ahead_is_answered(place: RunningEndpoint) -> None:
    async with place.peer() as peer, place.peer() as other:
        peer.send(modern(place.host, "first") + modern(place.host, "second"))
        first = await place.service.next()
        other.send(modern(place.host))
        await other.answer()
        assert place.service.asked.empty()
        first.result(b"{}")
        assert (await place.service.next()).preview.name == "second"


async def test_a_refusal_comes_after_the_answers_that_are_due(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow") + b"rubbish\r\n\r\n")
        (await place.service.next()).result(b"{}")
        everything = await peer.rest()
    assert [part[:3] for part in everything.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]


async def test_a_refusal_is_told_in_the_words_of_its_own_address_whatever_comes_behind_it(
    place: RunningEndpoint,
) -> None:
    async with place.peer() as peer:
        refused = modern(place.host, Origin="http://evil.example")
        peer.send(modern(place.host, "slow") + refused + get("/elsewhere", place.host))
        (await place.service.next()).result(b"{}")
        assert (await peer.answer()).status == 200
        answer = await peer.answer()
    assert answer.status == 403
    assert answer.json["error"]["data"]["name"] == "ORIGIN_REFUSED"


async def test_whoever_sent_more_behind_a_request_that_is_turned_away_can_read_why(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        turned_away = modern(place.host, Authorization="Bearer nobody")
        more = modern(place.host) * 4_000
        peer.send(turned_away + more[:100_000])
        assert (await peer.answer()).status == 401
        peer.send(more[100_000:])
        await peer.writer.drain()
        assert await peer.rest() == b""
        assert place.service.served == 0


async def test_more_pipelined_requests_than_may_wait_end_the_connection_after_those_that_may() -> None:
    async with opened(WaitingService(), HttpBounds(pipelined=4)) as place, place.peer() as peer:
        peer.send(modern(place.host, "slow") + b"".join(modern(place.host, id=i) for i in range(10)))
        (await place.service.next()).result(b"{}")
        assert (await peer.rest()).count(b"HTTP/1.1 200") == 5


async def test_a_thousand_pipelined_requests_that_are_answered_at_once_are_all_answered(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(b"".join(modern(place.host, id=i) for i in range(1000)))
        for number in range(1000):
            assert (await peer.answer()).json["id"] == number


async def test_connection_close_is_honoured(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, Connection="close") + modern(place.host))
        everything = await peer.rest()
    assert everything.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in everything


async def test_http_1_0_is_answered_once_and_closed(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (await peer.rest()).startswith(b"HTTP/1.1 200")


async def test_a_stream_to_http_1_0_has_no_chunks_and_ends_with_the_connection(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow").replace(b"HTTP/1.1", b"HTTP/1.0"))
        exchange = await place.service.next()
        exchange.notify("notifications/message", b"{}")
        exchange.result(b"{}")
        head, _, body = (await peer.rest()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"data: {")
    assert body.count(b"\n\n") == 2


async def test_expect_continue_is_told_to_go_on(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        head, _, body = modern(place.host, Expect="100-continue").partition(b"\r\n\r\n")
        peer.send(head + b"\r\n\r\n")
        assert (await peer.answer()).status == 100
        peer.send(body)
        assert (await peer.answer()).status == 200


async def test_expect_continue_behind_another_request_waits_for_its_turn(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        head, _, body = modern(place.host, id=2, Expect="100-continue").partition(b"\r\n\r\n")
        peer.send(modern(place.host, "slow") + head + b"\r\n\r\n")
        (await place.service.next()).result(b"{}")
        assert (await peer.answer()).json["id"] == 1
        assert (await peer.answer()).status == 100
        peer.send(body)
        assert (await peer.answer()).json["id"] == 2


async def test_expect_continue_that_comes_behind_two_requests_waits_for_both(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        head, _, body = modern(place.host, id=3, Expect="100-continue").partition(b"\r\n\r\n")
        peer.send(modern(place.host, "slow", id=1) + modern(place.host, "slow", id=2))
        peer.send(head + b"\r\n\r\n")
        for number in (1, 2):
            (await place.service.next()).result(b"{}")
            assert (await peer.answer()).json["id"] == number
        assert (await peer.answer()).status == 100
        peer.send(body)
        assert (await peer.answer()).json["id"] == 3


async def test_an_offer_to_upgrade_is_passed_over_and_the_body_is_read(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}
        peer.send(modern(place.host, **offer) + modern(place.host, id=2))
        assert (await peer.answer()).json["id"] == 1
        assert (await peer.answer()).json["id"] == 2


async def test_a_chunked_body_is_read(place: RunningEndpoint) -> None:
    head, _, body = modern(place.host).partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7))
    async with place.peer() as peer:
        peer.send(b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""]) + chunks + b"0\r\n\r\n")
        assert (await peer.answer()).status == 200


@pytest.mark.parametrize("path", [b"/mcp", b"/app"])
async def test_a_body_that_grows_over_the_limit_is_refused(path: bytes) -> None:
    async with opened(WaitingService(), limits=Limits(message_bytes=1000)) as place, place.peer() as peer:
        more = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        peer.send(b"POST %b HTTP/1.1\r\nHost: %b\r\n%b" % (path, place.host.encode(), more))
        peer.send(b"100\r\n" + b"a" * 256 + b"\r\n")
        for _ in range(4):
            peer.send(b"100\r\n" + b"a" * 256 + b"\r\n")
        everything = await peer.rest()
    assert everything.startswith(b"HTTP/1.1 413 ")
    assert b"(`message_bytes`)" in everything
    assert everything.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("length", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
async def test_a_long_body_is_not_read_from_who_is_not_admitted(place: RunningEndpoint, length: str) -> None:
    async with place.peer() as peer:
        lines = ["POST /mcp HTTP/1.1", f"Host: {place.host}", "Authorization: Bearer nobody", length, "", ""]
        peer.send("\r\n".join(lines).encode())
        answer = await peer.answer()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_bodies_that_come_in_are_bounded_over_all_connections() -> None:
    bounds = HttpBounds(held_bytes=3000, early_bytes=1000)
    async with opened(WaitingService(), bounds) as place, place.peer() as one, place.peer() as two:
        head = b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n"
        begun = head % place.host.encode() + b"a" * 1500
        one.send(begun)
        two.send(begun)
        answers = {asyncio.ensure_future(peer.answer()) for peer in (one, two)}
        done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status for task in done] == [503]
        waiting.pop().cancel()
        async with place.peer() as three:
            three.send(modern(place.host).replace(b"/mcp", b"/app", 1))
            assert (await three.answer()).status == 200
    assert place.server.listener.bodies.bytes == 0


async def test_a_refused_client_that_goes_on_sending_for_long_is_cut_off() -> None:
    async with opened(WaitingService(), HttpBounds(linger_s=600)) as place, place.peer() as peer:
        peer.send(b"rubbish\r\n\r\n")
        assert (await peer.answer()).status == 400
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                peer.send(b"x" * 1024 * 1024)
                await peer.writer.drain()
        await until(lambda: not place.server.listener.connections)


@pytest.mark.parametrize(("length", "is_kept"), [(2_000, True), (4_000, False)])
async def test_the_rest_of_a_body_that_the_app_did_not_wait_for_is_read_only_if_it_is_short(
    length: int, is_kept: bool
) -> None:
    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    server = await start(McpEndpoint(WaitingService()), hasty, bounds=HttpBounds(early_bytes=2_000))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /app HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode() + b"x")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.write(b"x" * (length - 1) + head.encode())
    following = await reader.read(12)
    assert following == (b"HTTP/1.1 200" if is_kept else b"")
    writer.close()
    await server.stop(0)


async def test_a_refusal_behind_a_request_to_the_app_leaves_that_one_alone(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, "slow") + get("/a", place.host) + get("//b", place.host))
        (await place.service.next()).result(b"{}")
        everything = await peer.rest()
    assert [part[:3] for part in everything.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]


async def test_a_fault_of_ours_while_a_request_is_read_ends_the_connection_and_is_reported(
    place: RunningEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, headers: object) -> AdmittedCaller:
        raise ZeroDivisionError

    monkeypatch.setattr(place.service, "admit", fail)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context.get("exception")))
    async with place.peer() as peer:
        peer.send(modern(place.host).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        assert await peer.rest() == b""
    assert [type(cause) for cause in reported] == [ZeroDivisionError]


async def test_huge_headers_behind_another_request_are_refused_too(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        huge = modern(place.host, X_Padding="a" * 70_000)
        peer.send(modern(place.host) + huge)
        everything = await peer.rest()
    assert [part[:3] for part in everything.split(b"HTTP/1.1 ")[1:]] == [b"200", b"431"]


async def test_everything_else_goes_to_the_app(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(post(place.host, b"hello", path="/app?x=1"))
        assert (await peer.answer()).body == b"/app hello"
    assert place.service.paths == []


@pytest.mark.parametrize("path", ["/mcp", "/servers/git/mcp", "/profiles/work/mcp"])
async def test_the_service_is_told_the_path(place: RunningEndpoint, path: str) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host).replace(b"/mcp", path.encode(), 1))
        assert (await peer.answer()).status == 200
    assert place.service.paths == [path]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /mcp HTTP/1.1\r\nHo",
        b"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n{",
        b"POST /app HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_a_request_that_does_not_come_in_time_is_refused(sent: bytes) -> None:
    async with opened(WaitingService(), IMPATIENT) as place, place.peer() as peer:
        peer.send(sent.replace(b"HOST", place.host.encode()))
        assert (await peer.rest()).startswith(b"HTTP/1.1 408 ")
        assert place.server.listener.timed_out == 1


async def test_a_request_that_trickles_in_is_refused_too() -> None:
    async with opened(WaitingService(), IMPATIENT) as place, place.peer() as peer:

        async def trickle() -> None:
            for byte in b"POST /mcp HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 1000:
                peer.send(bytes([byte]))
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        assert (await peer.rest()).startswith(b"HTTP/1.1 408 ")
        trickling.cancel()


async def test_a_connection_without_requests_is_closed_silently() -> None:
    async with opened(WaitingService(), IMPATIENT) as place, place.peer() as fresh, place.peer() as used:
        used.send(modern(place.host))
        await used.answer()
        assert await fresh.rest() == b""
        assert await used.rest() == b""


async def test_a_call_that_takes_longer_than_every_patience_is_answered() -> None:
    async with opened(WaitingService(), IMPATIENT) as place, place.peer() as waiting, place.peer() as idle:
        waiting.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        await idle.rest()
        exchange.result(b"{}")
        assert (await waiting.answer()).status == 200


async def test_a_client_that_never_reads_is_cut_off() -> None:
    async with opened(WaitingService(), IMPATIENT) as place:
        with socket.create_connection(("127.0.0.1", place.server.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(lazy, modern(place.host, "slow") + modern(place.host, "slow"))
            (await place.service.next()).result(b'"%b"' % (b"a" * 8_000_000))
            await until(lambda: not place.server.listener.connections)
        assert place.server.listener.timed_out == 1
        assert place.service.asked.empty(), "nothing is served while the client does not read"


async def test_a_stream_that_nobody_reads_is_closed_and_counted() -> None:
    async with opened(WaitingService(), HttpBounds(stream_bytes=100_000)) as place:
        with socket.create_connection(("127.0.0.1", place.server.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.sendall(modern(place.host, "slow"))
            exchange = await place.service.next()
            gone = asyncio.Event()
            exchange.on_cancel = lambda reason: gone.set()
            for _ in range(1000):
                exchange.notify("notifications/message", b'{"data":"%b"}' % (b"a" * 20_000))
                await asyncio.sleep(0)  # The loop writes what was sent in this turn.
            await asyncio.wait_for(gone.wait(), 120)
        assert place.server.listener.overrun == 1
        assert not exchange.open


async def test_more_connections_than_allowed_are_turned_away() -> None:
    async with (
        opened(WaitingService(), HttpBounds(connections=1)) as place,
        place.peer() as first,
        place.peer() as second,
    ):
        assert (await second.rest()).startswith(b"HTTP/1.1 503 ")
        first.send(modern(place.host))
        assert (await first.answer()).status == 200


async def test_stopping_lets_calls_finish_and_ends_everything_else() -> None:
    async with opened(WaitingService()) as place:
        client = await place.handshake()
        async with place.peer() as calling, place.peer() as subscribed, place.peer() as idle:
            listening = await client.listen()
            await listening.answer()
            calling.send(modern(place.host, "slow"))
            call_under_way = await place.service.next()
            subscribed.send(modern(place.host, method="subscriptions/listen", name="all", Mcp_Name=""))
            subscription = await place.service.next()
            subscription.notify("notifications/subscriptions/acknowledged", b"{}")
            idle.send(modern(place.host))
            await idle.answer()
            stopping = asyncio.create_task(place.server.stop(5))
            assert await idle.rest() == b""
            assert (await listening.rest()).endswith(b"0\r\n\r\n")
            assert (await subscribed.rest()).endswith(b"0\r\n\r\n")
            assert not subscription.open
            call_under_way.result(b"{}")
            assert (await calling.rest()).startswith(b"HTTP/1.1 200 ")
            await stopping
    assert place.service.over == place.service.sessions


async def test_stopping_waits_no_longer_than_it_may() -> None:
    async with opened(WaitingService()) as place, place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        reasons: list[str] = []
        exchange.on_cancel = reasons.append
        async with asyncio.timeout(120):
            await place.server.stop(0.1)
        assert b"OUTCOME_UNKNOWN" in await peer.rest()
        assert len(reasons) == 1


async def test_a_socket_of_the_callers_own_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = await start(McpEndpoint(WaitingService()), app, sock=listening)
        assert server.port == listening.getsockname()[1]
        await server.stop(0)


class Recorder(asyncio.Transport):
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 7420)})
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.ended:
            self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.ended

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.ended = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


def answers_to(pieces: list[bytes]) -> bytes:
    """The answer to the bytes, sent in these pieces."""
    from interlock.transports.http.server.connection import HttpConnection

    async def feed() -> bytes:
        listener = HttpListener(
            McpEndpoint(WaitingService()), allowed_hosts_for("127.0.0.1", 7420), DEFAULT, HttpBounds(), mcp_paths
        )
        listener.ok_head = listener.ok_head.replace(listener.ok_head.split(b"\r\n")[1], b"date: now")
        protocol = HttpConnection(listener, AsgiApplication(app))
        recorder = Recorder()
        protocol.connection_made(recorder)
        for piece in pieces:
            protocol.data_received(piece)
        while protocol.eof_received():  # the rest is read in later turns of the loop
            await asyncio.sleep(0)
        return recorder.written

    return asyncio.run(feed())


HOST = "127.0.0.1:7420"
CONVERSATIONS = [
    b"".join(modern(HOST, "echo", id=i, X_Number=str(i % 2)) for i in range(4)),
    modern(HOST),
    modern(HOST, id=1) + modern(HOST, id="two", Connection="close") + modern(HOST, id=3),
    modern(HOST, Mcp_Name="other") + modern(HOST, Mcp_Name="=?base64?ZWNobw==?="),
    post(HOST, call("echo")) + post(HOST, b"{") + post(HOST, b"[]"),
    modern(HOST, Upgrade="h2c", Connection="upgrade") + modern(HOST, id=5),
    modern(HOST).replace(b"Accept:", b"Accept: text/html\r\nAccept:"),
    modern(HOST) + b"POST /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + modern(HOST),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONVERSATIONS), st.lists(st.integers(1, 1200), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_answers(conversation: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(conversation), *(cut for cut in cuts if cut < len(conversation))})
    pieces = [conversation[a:b] for a, b in itertools.pairwise(places)]
    whole = answers_to([conversation])
    assert whole
    assert _undated(answers_to(pieces)) == _undated(whole)


def _undated(written: bytes) -> list[bytes]:
    return [line for line in written.split(b"\r\n") if not line.startswith(b"date: ")]


REQUESTS = st.builds(
    lambda name, number, said: modern(HOST, name, id=number, **said),
    st.sampled_from(["echo", "unknown", "broken"]),
    st.one_of(st.integers(0, 10**6), st.text("ab", min_size=1)),
    st.sampled_from([{}, {"Mcp_Name": "other"}, {"Mcp_Method": "x"}, {"X_More": "1"}, {"traceparent": "00-1"}]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUESTS, min_size=2, max_size=6))
def test_requests_like_those_before_them_are_answered_as_if_parsed(requests: list[bytes]) -> None:
    assert _undated(answers_to(requests)) == _undated(answers_to([b"".join(requests)]))


def test_one_byte_at_a_time_gives_the_same_answers() -> None:
    for conversation in CONVERSATIONS:
        pieces = [conversation[i : i + 1] for i in range(len(conversation))]
        assert _undated(answers_to(pieces)) == _undated(answers_to([conversation]))


def test_answers_say_when_they_were_given() -> None:
    written = answers_to([modern(HOST)])
    assert b"\r\ndate: " in written
    assert msgspec.json.decode(written.partition(b"\r\n\r\n")[2])["id"] == 1
