"""Both ends in one process: what a `Link` promises, kept without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from interlock.server import Anyone, Context, Server
from interlock.transports.link import Link, Outgoing
from interlock.transports.memory.link import MemoryLink
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Failure, Request, Result
from loop_clock import advance
from waiting import until

SECONDS_A_STEP = 100
"""Between two reports of progress. The clock is moved on by hand."""
META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class RecordingListener:
    """A sink and a listener that write down what they hear."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Result | Failure | Fault] = asyncio.get_running_loop().create_future()
        self.notes: list[tuple[str, Any]] = []
        self.questions: list[Request] = []
        self.closings = 0

    def on_response(self, answer: Result | Failure) -> None:
        self.ended.set_result(answer)

    def on_lost(self, fault: Fault) -> None:
        self.ended.set_result(fault)

    def on_notification(self, method: str, params: bytes) -> None:
        self.notes.append((method, msgspec.json.decode(params)))

    def on_request(self, request: Request) -> None:
        self.questions.append(request)

    def on_closed(self, fault: Fault) -> None:
        self.closings += 1

    def on_log(self, stream: str, text: str) -> None: ...


class HeldServer:
    """A server whose tool can be held, and a link to it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("test")
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.listener = RecordingListener()
        self.link: Link = MemoryLink(self.server, Anyone(), self.listener, limits=limits or Limits())

        @self.server.tool
        async def quick() -> str:
            return "quick"

        @self.server.tool
        async def slow(ctx: Context, steps: int = 0) -> None:
            self.started.set()
            try:
                for step in range(steps):
                    ctx.progress(step + 1)
                    await asyncio.sleep(SECONDS_A_STEP)
                await asyncio.Event().wait()
            finally:
                self.stopped.set()

    def send(self, name: str, seconds: float = 5.0, **more: Any) -> tuple[Any, RecordingListener]:
        sink = RecordingListener()
        steps = {"steps": more.pop("steps")} if "steps" in more else {}
        params = msgspec.json.encode({"name": name, "arguments": steps, "_meta": META})
        deadline = asyncio.get_running_loop().time() + seconds
        return self.link.send(Outgoing("tools/call", params, deadline, **more), sink), sink


async def test_an_answer_never_comes_before_send_has_returned() -> None:
    bench = HeldServer()
    handle, sink = bench.send("quick")
    assert not sink.ended.done()
    assert bench.link.pending == 1
    answer = await sink.ended
    assert isinstance(answer, Result)
    assert answer.id == handle
    assert bench.link.pending == 0


async def test_a_cancelled_request_stops_the_work_and_the_sink_hears_nothing() -> None:
    bench = HeldServer()
    handle, sink = bench.send("slow", steps=1)
    await bench.started.wait()
    bench.link.cancel(handle, "enough")
    await bench.stopped.wait()
    assert not sink.ended.done()
    handle, sink = bench.send("quick")
    bench.link.cancel(handle, "at once")
    _, next_sink = bench.send("quick")
    await next_sink.ended
    assert not sink.ended.done()


async def test_a_deadline_ends_the_request_and_the_work() -> None:
    bench = HeldServer()
    _, sink = bench.send("slow", seconds=60)
    await bench.started.wait()
    assert not sink.ended.done()
    advance(61)
    lost = await sink.ended
    assert isinstance(lost, Fault)
    assert lost.name == "UPSTREAM_TIMEOUT"
    await bench.stopped.wait()


async def test_progress_moves_the_deadline_on_but_not_for_ever() -> None:
    bench = HeldServer()
    latest = asyncio.get_running_loop().time() + 12 * SECONDS_A_STEP
    _, sink = bench.send("slow", seconds=4 * SECONDS_A_STEP, steps=100, wants_progress=True, max_deadline=latest)
    for step in range(1, 12):
        await until(lambda step=step: len(sink.notes) == step)
        assert not sink.ended.done()
        advance(SECONDS_A_STEP)
    advance(SECONDS_A_STEP)
    lost = await sink.ended
    assert isinstance(lost, Fault)
    assert [note[1]["progress"] for note in sink.notes[:3]] == [1, 2, 3]


async def test_closing_tells_every_sink_first_and_then_the_listener_once() -> None:
    bench = HeldServer()
    _, sink = bench.send("slow")
    await asyncio.sleep(0)
    await bench.link.close()
    lost = await sink.ended
    assert isinstance(lost, Fault)
    assert lost.name == "OUTCOME_UNKNOWN"
    await bench.link.close()
    assert bench.listener.closings == 1
    with pytest.raises(Fault, match="closed"):
        bench.send("quick")


async def test_too_many_requests_at_once_are_refused() -> None:
    bench = HeldServer(Limits(pending=2))
    bench.send("slow")
    bench.send("slow")
    with pytest.raises(Fault) as full:
        bench.send("quick")
    assert full.value.name == "RESOURCE_EXHAUSTED"


async def test_requests_that_may_not_be_served_are_refused_in_the_words_of_their_era() -> None:
    bench = HeldServer()
    deadline = asyncio.get_running_loop().time() + 5
    for method, params, code in (
        ("tools/list", b"{}", -32600),
        ("server/discover", b"{}", -32602),
        ("initialize", b"{}", -32602),
        ("tools/list", b'{"_meta":1}', -32602),
    ):
        sink = RecordingListener()
        bench.link.send(Outgoing(method, params, deadline), sink)
        answer = await sink.ended
        assert isinstance(answer, Failure)
        assert answer.error.code == code
