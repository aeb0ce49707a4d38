"""One stream: every line answered as it deserves, in both eras, and never more in memory than there may be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from line_peer import META, LinePeer, on_socket

from interlock.server import Context, Server
from interlock.transports.exchange import Exchange
from interlock.transports.stdio.server import StdioServer
from interlock.wire.errors import ErrorObject
from interlock.wire.limits import Limits


class WatchedServer:
    """A server whose slow tool can be seen starting and stopping."""

    def __init__(self) -> None:
        self.server = Server("test")
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.go = asyncio.Event()
        self.big = 0

        @self.server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @self.server.tool
        async def wait() -> None:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()

        @self.server.tool
        async def big(size: int) -> str:
            self.big += 1
            return "x" * size

        @self.server.tool
        async def ask(ctx: Context) -> str:
            self.started.set()
            return (await ctx.sample("?")).text

        @self.server.tool
        async def babble(ctx: Context, count: int) -> None:
            await self.go.wait()
            for number in range(count):
                ctx.progress(number, message="x" * 1000)
            self.stopped.set()


class FilledStream(StdioServer):
    """A stream that tells when it holds as much for its client as it may."""

    filled: asyncio.Event

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.filled = asyncio.Event()
        super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.filled.set()


@contextlib.asynccontextmanager
async def unread(server: Server) -> AsyncIterator[tuple[LinePeer, FilledStream]]:
    """A server whose client does not read for now."""
    async with on_socket(server, kind=FilledStream) as (peer, protocol):
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        assert isinstance(protocol, FilledStream)
        yield peer, protocol


async def test_both_eras_are_served_on_one_stream() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        modern = await peer.call("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert modern["result"]["structuredContent"] == 3
        opened = await peer.initialize()
        assert opened["result"]["protocolVersion"] == "2025-11-25"
        legacy = await peer.call("tools/call", modern=False, name="add", arguments={"a": 1, "b": 2})
        assert legacy["result"]["structuredContent"] == {"result": 3}
        assert (await peer.call("ping", modern=False))["result"] == {}
        assert (await peer.call("server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
        assert (await peer.call("ping"))["error"]["code"] == -32601


BAD_LINES: list[tuple[bytes, int, object]] = [
    (b"rubbish", -32700, None),
    (b'{"jsonrpc":"2.0","id":1', -32700, None),
    (b"\xff\xfe", -32700, None),
    (b"null", -32600, None),
    (b"3", -32600, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600, None),
    (b"{}", -32600, None),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":1}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}', -32600, "x"),
    (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"server/discover"}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":3}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":3}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","\xff":1}', -32700, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\xff"}}', -32700, 7),
    (b"[" * 100_000, -32600, None),
    (b"x" * 70_000, -32700, None),
    (b"x" * 300_000, -32600, None),
]


@pytest.mark.parametrize(("line", "code", "id"), BAD_LINES, ids=[str(number) for number in range(len(BAD_LINES))])
async def test_a_bad_line_gets_its_error_and_the_stream_lives_on(line: bytes, code: int, id: object) -> None:
    async with on_socket(WatchedServer().server, Limits(message_bytes=200_000)) as (peer, _):
        peer.write(line)
        answer = await peer.read()
        assert (answer["error"]["code"], answer.get("id")) == (code, id)
        assert "result" in await peer.call("tools/list")


async def test_a_line_that_is_too_long_is_refused_with_its_id_and_the_stream_lives_on() -> None:
    async with on_socket(WatchedServer().server, Limits(message_bytes=2000)) as (peer, _):
        await peer.initialize()
        for line in (
            b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"%b"}}',
            b'{"params":{"x":"%b"},"id":"a"}',
        ):
            peer.write(line.replace(b"%b", b"x" * 5000))
            answer = await peer.read()
            assert (answer["id"], answer["error"]["code"]) == ("a", -32600)
        assert "result" in await peer.call("ping", modern=False)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": "2031-01-01"}, -32022),
        ({"io.modelcontextprotocol/clientCapabilities": 1}, -32602),
        ({"io.modelcontextprotocol/logLevel": "loud"}, -32602),
    ],
)
async def test_wrong_request_metadata_is_refused(meta: dict[str, Any], code: int) -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        assert (await peer.call("tools/list", _meta=meta))["error"]["code"] == code


async def test_blank_lines_notifications_and_stray_answers_get_no_answer() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        for line in (
            b"",
            b"  ",
            b'{"jsonrpc":"2.0","method":"notifications/x","params":[]}',
            b'{"jsonrpc":"1.0","method":"notifications/x"}',
            b'{"jsonrpc":"2.0","method":"notifications/unknown"}',
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
            b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
            b'{"jsonrpc":"2.0","id":99,"result":{}}',
            b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}',
        ):
            peer.write(line)
        assert "result" in await peer.call("tools/list")


async def test_an_id_in_use_is_refused_and_the_first_request_still_answered() -> None:
    watched = WatchedServer()
    async with on_socket(watched.server) as (peer, _):
        request = {"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": {"name": "wait", "_meta": META}}
        peer.write(request)
        await watched.started.wait()
        peer.write(request)
        assert (await peer.read())["error"]["code"] == -32600
        peer.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "same"}})
        await asyncio.wait_for(watched.stopped.wait(), 120)


async def test_a_second_initialize_is_refused() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        await peer.initialize()
        again = await peer.call(
            "initialize", modern=False, protocolVersion="2025-11-25", capabilities={}, clientInfo={}
        )
        assert again["error"]["code"] == -32600


async def test_batches_are_answered_together_in_the_one_revision_that_has_them() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        await peer.initialize("2025-03-26")
        call = {"name": "add", "arguments": {"a": 1, "b": 1}}
        peer.write(
            [
                {"jsonrpc": "2.0", "id": "a", "method": "ping"},
                {"jsonrpc": "2.0", "method": "notifications/whatever"},
                {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": call},
                {"jsonrpc": "2.0", "id": "c", "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
                {"jsonrpc": "2.0", "id": "d"},
            ]
        )
        answers = await peer.read()
        by_id = {answer["id"]: answer for answer in answers}
        assert by_id["a"]["result"] == {}
        assert by_id["b"]["result"]["structuredContent"] == {"result": 2}
        assert by_id["c"]["error"]["code"] == -32600
        assert by_id["d"]["error"]["code"] == -32600
        peer.write([{"jsonrpc": "2.0", "method": "notifications/whatever"}])
        assert (await peer.call("ping", modern=False))["result"] == {}


async def test_a_cancelled_member_of_a_batch_does_not_hold_up_the_others() -> None:
    watched = WatchedServer()
    async with on_socket(watched.server) as (peer, _):
        await peer.initialize("2025-03-26")
        peer.write(
            [
                {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "wait"}},
                {"jsonrpc": "2.0", "id": "quick", "method": "ping"},
            ]
        )
        await asyncio.wait_for(watched.started.wait(), 120)
        peer.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
        assert [answer["id"] for answer in await peer.read()] == ["quick"]


@pytest.mark.parametrize("written", [int, float])
async def test_a_cancelled_call_is_stopped_and_never_answered(written: type[int] | type[float]) -> None:
    watched = WatchedServer()
    async with on_socket(watched.server) as (peer, _):
        number = written(peer.send("tools/call", name="wait"))
        await asyncio.wait_for(watched.started.wait(), 120)
        peer.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        await asyncio.wait_for(watched.stopped.wait(), 120)
        assert "result" in await peer.call("tools/list")


async def test_the_end_of_the_stream_cancels_what_is_under_way() -> None:
    watched = WatchedServer()
    async with on_socket(watched.server) as (peer, protocol):
        await peer.initialize()
        peer.send("tools/call", modern=False, name="wait")
        await asyncio.wait_for(watched.started.wait(), 120)
        peer.writer.write_eof()
        await asyncio.wait_for(watched.stopped.wait(), 120)
        await asyncio.wait_for(protocol.wait_closed(), 120)
        assert await peer.reader.read() == b""
        watched.server.remove_tool("add")


async def test_a_session_is_asked_with_ids_of_the_servers_own() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        await peer.initialize(sampling={})
        number = peer.send("tools/call", modern=False, name="ask")
        question = await peer.read()
        assert question["method"] == "sampling/createMessage"
        content = {"type": "text", "text": "Paris"}
        peer.write(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"role": "assistant", "content": content, "model": "m"}}
        )
        answer = await peer.read()
        assert (answer["id"], answer["result"]["structuredContent"]) == (number, {"result": "Paris"})


async def test_a_client_that_refuses_a_question_fails_the_call_with_its_own_code() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        await peer.initialize(sampling={})
        peer.send("tools/call", modern=False, name="ask")
        question = await peer.read()
        peer.write({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "the user said no"}})
        error = (await peer.read())["error"]
        assert error["code"] == -1
        assert "the user said no" in error["message"]


async def test_cancelling_a_call_withdraws_its_question() -> None:
    watched = WatchedServer()
    async with on_socket(watched.server) as (peer, _):
        await peer.initialize(sampling={})
        number = peer.send("tools/call", modern=False, name="ask")
        question = await peer.read()
        peer.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        withdrawn = await peer.read()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    watched = WatchedServer()
    async with unread(watched.server) as (peer, protocol):
        asked = 400
        for _ in range(asked):
            peer.send("tools/call", name="big", arguments={"size": 64 * 1024})
        await protocol.filled.wait()
        taken = watched.big
        # A socket pair within one process: whatever the server would take, it takes within a few turns of the loop.
        for _ in range(100):
            await asyncio.sleep(0)
        assert watched.big == taken < asked, "it holds a bounded amount for the client, and takes no more requests"
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        seen = {(await peer.read())["id"] for _ in range(asked)}
        assert len(seen) == asked


async def test_notifications_are_dropped_for_a_client_that_does_not_read_but_answers_never() -> None:
    watched = WatchedServer()
    async with unread(watched.server) as (peer, protocol):
        first = peer.send("tools/call", name="babble", arguments={"count": 20_000}, _meta={"progressToken": "p"})
        second = peer.send("tools/call", name="big", arguments={"size": 4 * 1024 * 1024})
        await protocol.filled.wait()
        watched.go.set()
        await watched.stopped.wait()
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        told = 0
        answered = set()
        while len(answered) < 2:
            line = await peer.read()
            if "id" in line:
                answered.add(line["id"])
            else:
                told += 1
        assert answered == {first, second}
        assert told < 20_000


async def test_answers_of_one_turn_leave_in_one_write() -> None:
    loop = asyncio.get_running_loop()
    written: list[bytes] = []
    turns: list[int] = []
    turn = 0
    all_written = asyncio.Event()

    def next_turn() -> None:
        nonlocal turn, ticking
        turn += 1
        ticking = loop.call_soon(next_turn)

    class Counting(asyncio.WriteTransport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))
            turns.append(turn)
            if b"".join(written).count(b"\n") == 50:
                all_written.set()

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            pass

    ticking = loop.call_soon(next_turn)
    async with on_socket(WatchedServer().server) as (_, protocol):
        protocol.write_to(Counting())
        pings = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
        protocol.data_received(b"".join(pings % number for number in range(50)))
        await all_written.wait()
    ticking.cancel()
    # A client that used up its share of a turn gets the rest of its answers in a later one: a busy machine splits them.
    assert len(turns) == len(set(turns))


async def test_too_many_open_requests_are_refused_with_their_id() -> None:
    async with on_socket(WatchedServer().server, Limits(pending=2)) as (peer, _):
        for _ in range(3):
            last = peer.send("tools/call", name="wait")
        answer = await peer.read()
        assert answer["id"] == last
        assert answer["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"


class Broken(Server):
    """A service that breaks its promises."""

    def serve(self, exchange: Exchange) -> None:
        if exchange.preview.name == "raise":
            raise RuntimeError("secret")
        if exchange.preview.name == "error":
            exchange.pass_failure(ErrorObject(1, "a\udcff", msgspec.Raw(b'{"b":\n"\xff"}')))
            return
        exchange.result({"lines": b'{"a":\n1}', "bytes": b'{"a":"\xff"}'}[exchange.preview.name or ""])


async def test_a_service_that_breaks_its_promises_harms_only_its_own_answer() -> None:
    async with on_socket(Broken("broken")) as (peer, _):
        raised = await peer.call("tools/call", name="raise")
        assert raised["error"]["code"] == -32603
        assert "secret" not in str(raised)
        assert (await peer.call("tools/call", name="lines"))["result"] == {"a": 1}
        assert (await peer.call("tools/call", name="bytes"))["error"]["data"]["name"] == "UPSTREAM_ERROR"
        passed = await peer.call("tools/call", name="error")
        assert passed["error"] == {"code": 1, "message": "a?", "data": {"b": "\ufffd"}}


async def test_a_message_in_many_pieces_is_one_message() -> None:
    async with on_socket(WatchedServer().server) as (peer, _):
        line = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        for byte in line:
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
        assert await peer.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_pieces_that_arrive_behind_a_large_line_are_read_in_their_order() -> None:
    """The loop may hand over a piece that it read before reading was paused, and a line may begin in one piece and end
    in the next."""
    pings = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(1, 400)]
    large = msgspec.json.encode({"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {"text": "x" * 100_000}})
    sent = large + b"\n" + b"".join(pings)
    async with on_socket(Server("one")) as (peer, protocol):
        for piece in (sent[:-1_010], sent[-1_010:-501], sent[-501:]):
            protocol.take_in(piece)
        assert [(await peer.read())["id"] for _ in range(400)] == list(range(400))
