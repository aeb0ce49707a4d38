"""Repeated calls on one connection are judged, forwarded and recorded like the first one, whatever comes back.

The hub keeps heads, plans, dialects and sessions from call to call. The model is the first call on a new connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import msgspec
import pytest

from interlock.config.settings import HubSettings, ServerSettings
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.store import StoreFull

from .committed import CommittedRecords
from .raw_server import COMPLETE, SCHEMA, RawHttpServer, RawStdioServer
from .running_hub import KeptHttpClient, KeptStdioClient, RawClient, RunningHub, running_hub, text_of, until

OK, STRANGE = "web__ok", "web__strange"


class Way(NamedTuple):
    """How a server is reached. In the handshake era there is a session on either side of the hub, but for streams."""

    era: Literal["modern", "legacy"]
    streams: bool = False
    lines: bool = False
    """Whether the client, too, speaks on a stream, and else over HTTP."""


NEW, OLD = Way("modern"), Way("legacy")
NEW_STREAMS, OLD_STREAMS = Way("modern", streams=True), Way("legacy", streams=True)
NEW_LINES, OLD_LINES = Way("modern", lines=True), Way("legacy", lines=True)
ALL = {
    "new": NEW,
    "old": OLD,
    "new from a stream": NEW_LINES,
    "old from a stream": OLD_LINES,
    "new to a stream": NEW_STREAMS,
    "old from a stream to a stream": Way("legacy", streams=True, lines=True),
}


@pytest.fixture(params=ALL.values(), ids=ALL)
def way(request: pytest.FixtureRequest) -> Way:
    found = request.param
    assert isinstance(found, Way)
    return found


@asynccontextmanager
async def server_hub(tmp_path: Path, way: Way, **settings: Any) -> AsyncIterator[HubWithServer]:
    modern = way.era == "modern"
    async with (RawStdioServer if way.streams else RawHttpServer)(modern=modern) as server:
        server.schema = SCHEMA
        if isinstance(server, RawHttpServer):
            server.session = "theirs"
            settings["url"] = server.url
        else:
            settings["command"] = server.command
        hub = settings.pop("hub", HubSettings())
        async with running_hub(tmp_path, {"web": ServerSettings(era=way.era, **settings)}, hub=hub) as running:
            yield HubWithServer(running, server, modern, way.lines)


class HubWithServer(NamedTuple):
    hub: RunningHub
    web: RawHttpServer | RawStdioServer
    modern: bool
    lines: bool

    def kept(self, key: str | None = None) -> KeptHttpClient | KeptStdioClient:
        if self.lines:
            return KeptStdioClient(self.hub, key, modern=self.modern)
        return KeptHttpClient(self.hub.url, key, modern=self.modern)


LIKE = b'{"text":"well"}'


async def warmed(client: KeptHttpClient | KeptStdioClient) -> None:
    """Make a few calls, so that everything that is kept from call to call is there."""
    for number in range(3):
        arguments = b'{"text":"%b"}' % (b"long " * number)
        assert text_of(await client.call(STRANGE, arguments, number)) == "fine"


def whole(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: %LENGTH%\r\n\r\n"
    return head.encode() + body


def answered(result: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {**COMPLETE, **result}}, separators=(",", ":"))
    return body.replace('"id":0', '"id":%ID%').encode()


TEXT = {"content": [{"type": "text", "text": "x"}]}
STREAM = b"data: " + answered(TEXT) + b"\n\n"
NOTED = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n' + STREAM
REPLIES = {
    "plain": whole("200 OK", answered(TEXT)),
    "an error": whole("200 OK", b'{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32000,"message":"no","data":{"a":1}}}'),
    "a tool's failure": whole("200 OK", answered({**TEXT, "isError": True})),
    "text beyond ASCII": whole("200 OK", answered(TEXT).replace(b'"x"', '"\u00e9"'.encode())),
    "several lines": whole("200 OK", answered(TEXT).replace(b'"content":', b'\n"content":\r\n')),
    "no text at all": whole("200 OK", answered(TEXT).replace(b'"x"', b'"\xff"')),
    "an address": whole("200 OK", answered({"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]})),
    "a public result": whole("200 OK", answered({**TEXT, "cacheScope": "public"})),
    "a question": whole("200 OK", answered({**TEXT, "resultType": "input_required", "inputRequests": {}})),
    "two kinds": whole("200 OK", answered(TEXT).replace(b'"ttlMs"', b'"resultType":"input_required","ttlMs"')),
    "another kind": whole("200 OK", answered({**TEXT, "resultType": "strange"})),
    "no kind": whole("200 OK", b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]}}'),
    "another order": whole("200 OK", b'{"result":{"resultType":"complete","content":[]},"id":%ID%,"jsonrpc":"2.0"}'),
    "another id": whole("200 OK", b'{"jsonrpc":"2.0","id":777777,"result":{"resultType":"complete","content":[]}}'),
    "no JSON": whole("200 OK", b"{"),
    "a stream": whole("200 OK", STREAM, "text/event-stream"),
    "a stream with more": whole("200 OK", NOTED, "text/event-stream"),
    "a stream without an end": whole("200 OK", b": nothing\n\n", "text/event-stream"),
    "a failure of the server": whole("500 Broken", b"oops", "text/plain"),
    "too many": b"HTTP/1.1 429 Slow Down\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{",
}  # fmt: skip


NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%ID%,"progress":1}}'
LINES = {
    "plain": answered(TEXT),
    "an error": b'{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32000,"message":"no","data":{"a":1}}}',
    "a tool's failure": answered({**TEXT, "isError": True}),
    "text beyond ASCII": answered(TEXT).replace(b'"x"', '"\u00e9"'.encode()),
    "spaces": answered(TEXT).replace(b":", b" : "),
    "the other line end": answered(TEXT) + b"\r",
    "no text at all": answered(TEXT).replace(b'"x"', b'"\xff"'),
    "an address": answered({"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]}),
    "a public result": answered({**TEXT, "cacheScope": "public"}),
    "a question": answered({**TEXT, "resultType": "input_required", "inputRequests": {}}),
    "two kinds": answered(TEXT).replace(b'"ttlMs"', b'"resultType":"input_required","ttlMs"'),
    "another kind": answered({**TEXT, "resultType": "strange"}),
    "no kind": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]}}',
    "the id last": b'{"result":{"resultType":"complete","content":[]},"jsonrpc":"2.0","id":%ID%}',
    "the version last": b'{"result":{"resultType":"complete","content":[]},"id":%ID%,"jsonrpc":"2.0"}',
    "an id in words": b'{"jsonrpc":"2.0","id":"%ID%","result":{"content":[]}}',
    "a member more": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},"more":{}}',
    "a result twice": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},"result":{"content":[]}}',
    "an id twice": b'{"result":{"content":[]},"id":1,"jsonrpc":"2.0","id":%ID%}',
    "no object": b'{"jsonrpc":"2.0","id":%ID%,"result":[]}',
    "no result": b'{"jsonrpc":"2.0","id":%ID%}',
    "half of it": b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[}',
    "a batch": b"[" + answered(TEXT) + b"]",
    "a note before": NOTE + b"\n" + answered(TEXT),
    "rubbish before": b"starting...\n" + answered(TEXT),
    "another's before": answered(TEXT).replace(b"%ID%", b"777777") + b"\n" + answered(TEXT),
    "the same again": answered(TEXT) + b"\n" + answered(TEXT),
    "progress of it": PROGRESS + b"\n" + answered(TEXT),
    "a question of its own": b'{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}\n'
    + answered(TEXT),
}  # fmt: skip


@pytest.mark.parametrize("way", [NEW, OLD, NEW_LINES, OLD_LINES], ids=["new", "old", "new lines", "old lines"])
async def test_whatever_a_server_answers_is_told_and_recorded_as_to_the_first_call(tmp_path: Path, way: Way) -> None:
    await assert_told_as_the_first(tmp_path, way, REPLIES)


@pytest.mark.parametrize("way", [NEW_STREAMS, OLD_STREAMS], ids=lambda way: way.era)
async def test_whatever_a_program_writes_is_told_and_recorded_as_to_the_first_call(tmp_path: Path, way: Way) -> None:
    await assert_told_as_the_first(tmp_path, way, {kind: line + b"\n" for kind, line in LINES.items()})


async def assert_told_as_the_first(tmp_path: Path, way: Way, replies: dict[str, bytes]) -> None:
    async with server_hub(tmp_path, way, timeout_s=1) as place:
        hub, web = place[:2]
        for kind, reply in replies.items():
            records = CommittedRecords(hub.hub_app.bus)
            async with place.kept() as client:
                await warmed(client)
                web.replies["strange"] = reply
                told = but_for_trace(await client.call(STRANGE, LIKE, 9))
            async with place.kept() as first:
                assert but_for_trace(await first.call(STRANGE, LIKE, 9)) == told, kind
            assert kind != "plain" or text_of(told) == "x"
            del web.replies["strange"]
            await hub.hub_app.recorder.flushed()
            assert hub.hub_app.hub.open_calls == 0, kind
            # One that takes long has a row of its intent before that of its outcome, and that row has the arguments.
            one, other = [record for record in records if record.name == "strange" and record.outcome is not None][-2:]
            unlike = {
                "seq": 0,
                "at": 0,
                "trace": "",
                "intent": 0,
                "duration_us": 0,
                "redacted_arguments": msgspec.UNSET,
            }
            assert msgspec.structs.replace(one, **unlike) == msgspec.structs.replace(other, **unlike), kind


def but_for_trace(answer: Any) -> Any:
    """Without the trace, which is each call's own."""
    (answer.get("error", {}).get("data") or {}).pop("trace_id", None)
    return answer


async def test_a_program_that_ends_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with server_hub(tmp_path, NEW_STREAMS) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        web.replies["strange"] = b""
        waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
        await until(lambda: web.called == 4)
        assert isinstance(web, RawStdioServer)
        web.end()
        told = await waiting
        assert told["error"]["data"]["name"] == "OUTCOME_UNKNOWN"
        assert "exited with code 0" in told["error"]["message"]
        assert hub.hub_app.hub.open_calls == 0


async def test_each_call_gets_its_own_answer_and_its_own_row(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub = place.hub
        records = CommittedRecords(hub.hub_app.bus)
        for number in range(20):
            answer = await client.call(OK, b'{"n":%d}' % number, number)
            assert answer["id"] == number
        await hub.hub_app.recorder.flushed()
    assert len({entry.arguments for entry in records if entry.name}) == 20


WRONG_ARGUMENTS = [
    b'{"text":"x","text":"y"}',
    b'{"text":"x"},"name":"web__ok","arguments":{}',
    b'{"text":"\\ud800"}',
    b'{"text":1e999}',
    b'{"text":"x"',
    b'["a","b","c","d"]',
    b'  {"text" : "x"}  ',
    b'{"text":{"a":"b"}}',
    b'{"n":"not a number"}',
    b'{"none":"such a thing"}',
    b'{"text":%b1%b}' % (b"[" * 80, b"]" * 80),
    b'{"text":[%b1]}' % (b"1," * 11_000),
]


async def test_what_is_wrong_with_one_of_them_is_found_as_if_it_were_the_first(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place:
        hub, web = place[:2]
        for arguments in WRONG_ARGUMENTS:
            # Nothing is known from the arguments before.
            hub.hub_app.plan_generation.advance()
            hub.hub_app.authenticator.forget()
            async with place.kept() as first:
                told = await first.call(STRANGE, arguments, 7)
            async with place.kept() as client:
                await warmed(client)
                called = web.called
                assert await client.call(STRANGE, arguments, 7) == told, arguments
                assert "error" not in told or web.called == called, arguments
                assert text_of(await client.call(STRANGE, LIKE, 8)) == "fine", arguments


async def test_a_key_that_is_taken_back_is_refused_in_the_middle_of_like_calls(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place:
        hub, web = place[:2]
        key = await hub.new_key("ci")
        async with place.kept(key) as client:
            await warmed(client)
            await hub.operate("keys.revoke", agent="ci")
            if way.lines and way.era == "legacy":
                # The session ends with the key, and the stream with the session.
                with pytest.raises((ConnectionError, json.JSONDecodeError)):
                    await client.call(STRANGE, LIKE, 4)
            else:
                told = await client.call(STRANGE, LIKE, 4)
                assert "key is not known" in told["error"]["message"]
            assert web.called == 3


async def test_what_is_denied_meanwhile_is_refused_to_like_calls_too(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place:
        hub, web = place[:2]
        key = await hub.new_key("ci")
        async with place.kept(key) as client:
            await warmed(client)
            await hub.deny("ci", "web")
            told = await client.call(STRANGE, LIKE, 4)
            assert told["error"]["message"].startswith("Unknown tool"), told
            assert web.called == 3


def _new_line(hub: RunningHub) -> None:
    upstream = hub.hub_app.upstreams["web"]
    assert upstream.pool.shared is not None
    upstream.pool.shared = UpstreamConnection(upstream.pool.shared.connection)


CHANGES: dict[str, Callable[[RunningHub], None]] = {
    "something that plans are made of": lambda hub: hub.hub_app.plan_generation.advance(),
    "the connection": _new_line,
}
FORGOTTEN = {"who a credential stands for": lambda hub: hub.hub_app.authenticator.forget()}
"""Over HTTP, where each request brings its credential."""


@pytest.mark.parametrize("what", CHANGES)
async def test_what_was_found_out_is_found_out_again_after_a_change(tmp_path: Path, way: Way, what: str) -> None:
    await assert_found_out_again(tmp_path, way, CHANGES[what])


@pytest.mark.parametrize("what", FORGOTTEN)
@pytest.mark.parametrize("way", [NEW, OLD], ids=lambda way: way.era)
async def test_who_asks_is_found_out_again_after_a_change(tmp_path: Path, way: Way, what: str) -> None:
    await assert_found_out_again(tmp_path, way, FORGOTTEN[what])


async def assert_found_out_again(tmp_path: Path, way: Way, change: Callable[[RunningHub], None]) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub = place.hub
        await warmed(client)
        change(hub)
        assert text_of(await client.call(STRANGE, LIKE, 4)) == "fine"
        assert text_of(await client.call(STRANGE, LIKE, 5)) == "fine"


@pytest.mark.parametrize("way", [NEW, NEW_LINES, OLD_LINES], ids=["new", "new lines", "old lines"])
async def test_a_client_that_goes_is_not_waited_for(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place:
        hub, web = place[:2]
        records = CommittedRecords(hub.hub_app.bus)
        async with place.kept() as client:
            await warmed(client)
            web.replies["strange"] = b""
            waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
            await until(lambda: web.called == 4)
        waiting.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        await until(lambda: web.lost == 1)
        await hub.hub_app.recorder.flushed()
    outcome = [record.outcome for record in records if record.name == "strange"][-1]
    assert outcome is not None
    assert outcome.transport == "cancelled"


@pytest.mark.parametrize("how", ["cancelled", "session"])
async def test_in_a_session_a_call_ends_when_it_is_cancelled_or_the_session_ends(tmp_path: Path, how: str) -> None:
    async with server_hub(tmp_path, OLD) as place:
        hub, web = place[:2]
        records = CommittedRecords(hub.hub_app.bus)
        async with place.kept() as client, place.kept() as other:
            await warmed(client)
            web.replies["strange"] = b""
            waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
            await until(lambda: web.called == 4)
            other.session = client.session
            if how == "cancelled":
                await other.tell("notifications/cancelled", {"requestId": 4, "reason": "enough"})
            else:
                id_ = client.session.partition(": ")[2].partition("\r\n")[0]
                raw = RawClient(hub.url + "/mcp")
                raw.session = id_
                assert (await raw.send("DELETE"))[0] == 204
            assert_ended(await waiting, how)
            await until(lambda: hub.hub_app.hub.open_calls == 0)
            await until(lambda: web.lost == 1)
        await hub.hub_app.recorder.flushed()
    outcome = [record.outcome for record in records if record.name == "strange"][-1]
    assert outcome is not None
    assert outcome.transport == "cancelled"


def assert_ended(answer: Any, how: str) -> None:
    """A cancelled call gets no answer. The open calls of a session that ends are answered."""
    if how == "cancelled":
        assert answer is None
    else:
        assert answer["error"]["data"]["name"] == "SESSION_UNKNOWN"


@pytest.mark.parametrize("way", [NEW_LINES, OLD_LINES], ids=lambda way: way.era)
async def test_on_a_stream_a_call_ends_when_it_is_cancelled_and_its_id_is_free_again(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub, web = place[:2]
        assert isinstance(client, KeptStdioClient)
        await warmed(client)
        web.replies["strange"] = b""
        waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
        await until(lambda: web.called == 4)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        told = await client.call(STRANGE, LIKE, 4)
        assert "already in use" in told["error"]["message"]
        await client.tell("notifications/cancelled", {"requestId": 4})
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        await until(lambda: web.lost == 1)
        del web.replies["strange"]
        assert text_of(await client.call(STRANGE, LIKE, 4)) == "fine"


@pytest.fixture
def held() -> Iterator[list[Callable[[], None]]]:
    """Calls that were judged and wait for the next step of their batch, which they get when a test takes it."""
    steps: list[Callable[[], None]] = []

    class Waiting:
        running = True

        @classmethod
        def of(cls, loop: object) -> Waiting:
            return cls()

        def then(self, do: Callable[..., None], *args: object) -> None:
            steps.append(partial(do, *args))

    with patch("interlock.hub.calls.pipeline.pipeline.Batching", Waiting):
        yield steps


def take(steps: list[Callable[[], None]]) -> None:
    while steps:
        steps.pop(0)()


@pytest.mark.parametrize("way", [NEW_LINES, OLD_LINES], ids=lambda way: way.era)
async def test_on_a_stream_one_that_is_cancelled_before_it_is_sent_is_not_sent(
    tmp_path: Path, way: Way, held: list[Callable[[], None]]
) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub, web = place[:2]
        assert isinstance(client, KeptStdioClient)
        await warming(client, held)
        waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
        await until(lambda: len(held) == 1)
        await client.tell("notifications/cancelled", {"requestId": 4})
        await until(lambda: not client.server.busy)
        waiting.cancel()
        await asyncio.wait([waiting])
        # Its id is another's before the round is done with the first.
        waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
        await until(lambda: len(held) == 2)
        take(held)
        assert text_of(await waiting) == "fine"
        assert web.called == 4
        assert hub.hub_app.hub.open_calls == 0


@pytest.mark.parametrize("how", ["cancelled", "session"])
async def test_in_a_session_one_that_is_taken_back_before_it_is_sent_is_not_sent(
    tmp_path: Path, how: str, held: list[Callable[[], None]]
) -> None:
    async with server_hub(tmp_path, OLD) as place, place.kept() as client, place.kept() as other:
        hub, web = place[:2]
        assert isinstance(client, KeptHttpClient)
        assert isinstance(other, KeptHttpClient)
        await warming(client, held)
        waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
        await until(lambda: len(held) == 1)
        if how == "cancelled":
            other.session = client.session
            await other.tell("notifications/cancelled", {"requestId": 4})
        else:
            raw = RawClient(hub.url + "/mcp")
            raw.session = client.session.partition(": ")[2].partition("\r\n")[0]
            assert (await raw.send("DELETE"))[0] == 204
        assert_ended(await waiting, how)
        take(held)
        assert web.called == 3
        assert hub.hub_app.hub.open_calls == 0


async def warming(client: KeptHttpClient | KeptStdioClient, steps: list[Callable[[], None]]) -> None:
    """The same where steps wait until a test takes them."""
    leaving = asyncio.ensure_future(warmed(client))
    while not leaving.done():
        take(steps)
        await asyncio.sleep(0.001)
    await leaving


async def test_an_id_that_is_in_use_is_refused(tmp_path: Path) -> None:
    async with server_hub(tmp_path, OLD) as place:
        hub, web = place[:2]
        async with place.kept() as client, place.kept() as other:
            await warmed(client)
            web.replies["strange"] = b""
            waiting = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
            await until(lambda: web.called == 4)
            other.session = client.session
            told = await other.call(STRANGE, LIKE, 4)
            assert "already in use" in told["error"]["message"]
            await other.tell("notifications/cancelled", {"requestId": 4})
            assert await waiting is None
        assert hub.hub_app.hub.open_calls == 0


async def test_another_key_of_the_same_agent_has_its_own_rights_however_alike_the_call_is(tmp_path: Path) -> None:
    async with server_hub(tmp_path, OLD) as place:
        hub, web = place[:2]
        wide, narrow = await hub.new_key("ci"), await hub.new_key("ci", permissions=("invoke:web__ok",))
        async with place.kept(wide) as client, place.kept(narrow) as other:
            assert isinstance(client, KeptHttpClient)
            assert isinstance(other, KeptHttpClient)
            other.session = client.session
            for _ in range(2):
                # The narrow key's refused call comes between those of the wide one.
                await warmed(client)
                assert "error" in await other.call(STRANGE, LIKE, 7)
            assert web.called == 6


async def test_calls_of_a_stream_are_those_of_whoever_opened_its_session(tmp_path: Path) -> None:
    async with server_hub(tmp_path, NEW_LINES) as place, place.kept() as client:
        hub = place.hub
        records = CommittedRecords(hub.hub_app.bus)
        assert isinstance(client, KeptStdioClient)
        key = await hub.new_key("ci")
        await warmed(client)
        await client.introduce(auth={"type": "bearer", "token": key})
        await warmed(client)
        await hub.hub_app.recorder.flushed()
    actors = [record.actor for record in records if record.name == "strange" and record.outcome is not None]
    assert actors == ["local"] * 3 + ["ci"] * 3


async def test_a_session_of_another_is_unknown_however_alike_the_call_is(tmp_path: Path) -> None:
    async with server_hub(tmp_path, OLD) as place:
        hub, web = place[:2]
        mine, theirs = await hub.new_key("mine"), await hub.new_key("theirs")
        async with place.kept(mine) as client, place.kept(theirs) as other:
            await warmed(client)
            await warmed(other)
            other.session = client.session
            told = await other.call(STRANGE, LIKE, 5)
            assert told["error"]["message"].startswith("no such session"), told
            assert web.called == 6


async def test_a_session_that_the_server_lost_is_opened_again(tmp_path: Path) -> None:
    async with server_hub(tmp_path, OLD) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        web.replies["strange"] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        told = await client.call(STRANGE, LIKE, 4)
        assert "lost its session" in told["error"]["message"]
        web.session = "another"
        del web.replies["strange"]
        connection = hub.hub_app.upstreams["web"].pool.connections()[0]
        await until(lambda: connection.reopening is None)
        assert text_of(await client.call(STRANGE, LIKE, 5)) == "fine"


async def test_one_that_takes_too_long_is_told_so_and_the_server_hears_of_it(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way, timeout_s=0.4) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        web.replies["strange"] = b""
        told = await client.call(STRANGE, LIKE, 4)
        assert "in time" in told["error"]["message"] or "0.4 s" in told["error"]["message"], told
        await until(lambda: web.lost == 1)
        assert hub.hub_app.hub.open_calls == 0


async def test_without_room_it_is_refused_like_all_others(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        hub.hub_app.hub.pipeline.dispatcher.quota = msgspec.structs.replace(
            hub.hub_app.hub.pipeline.dispatcher.quota, in_all=0
        )
        told = await client.call(STRANGE, LIKE, 4)
        assert "calls in all are under way" in json.dumps(told)
        assert web.called == 3


async def test_nothing_is_sent_while_it_cannot_be_recorded(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        # A commit that is under way would clear the error.
        await hub.hub_app.recorder.flushed()
        hub.hub_app.recorder.write_error = StoreFull("the disk is full", "make room")
        told = await client.call(STRANGE, LIKE, 4)
        assert "the disk is full" in json.dumps(told)
        assert web.called == 3
        hub.hub_app.recorder.write_error = None
        assert hub.hub_app.hub.open_calls == 0
        assert text_of(await client.call(STRANGE, LIKE, 5)) == "fine"


async def test_a_server_that_was_started_anew_is_called_on_its_new_connection(tmp_path: Path, way: Way) -> None:
    async with server_hub(tmp_path, way) as place, place.kept() as client:
        hub, web = place[:2]
        await warmed(client)
        line = hub.hub_app.upstreams["web"].pool.shared
        await hub.operate("servers.restart", server="web")
        await until(lambda: hub.hub_app.upstreams["web"].pool.shared not in (None, line))
        assert text_of(await client.call(STRANGE, LIKE, 4)) == "fine"
        assert web.called == 4


async def test_calls_at_once_never_take_more_than_the_room_there_is(tmp_path: Path) -> None:
    async with server_hub(tmp_path, NEW) as place:
        hub, web = place[:2]
        clients = [place.kept() for _ in range(12)]
        for client in clients:
            await client.__aenter__()
            await warmed(client)
        web.replies["strange"] = b""
        hub.hub_app.hub.pipeline.dispatcher.quota = msgspec.structs.replace(
            hub.hub_app.hub.pipeline.dispatcher.quota, per_server=5
        )
        waiting = [asyncio.ensure_future(client.call(STRANGE, LIKE, 9)) for client in clients]
        refused = 0
        for done in asyncio.as_completed(waiting, timeout=120):
            refused += "are under way" in json.dumps(await done)
            if refused == 7:
                break
        assert hub.hub_app.hub.open_calls == 5
        for client in clients:
            await client.__aexit__()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
