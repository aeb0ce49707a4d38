"""The load: callers that ask, wait, check and ask again, over HTTP connections or the pipes of one client process.

Every answer is checked, id and content; one wrong answer fails the round.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httptools
import msgspec

from workload import BARE, FIRST_ID, Era, Shape, Shot, context_headers, credential, post

PATIENCE_S = 30.0
WARM_CALLS = 400
WARM_S = 1.0


class WrongAnswer(Exception):
    """Something came back that is not what was asked for, or nothing did."""


class Round(msgspec.Struct):
    """The figures of one round."""

    calls_s: float
    p50_us: float
    p99_us: float
    cpu_us: float
    """CPU time per call of the measured processes."""
    calls: int


class _Text(msgspec.Struct):
    text: str


class _Result(msgspec.Struct):
    content: list[_Text]


class _Answer(msgspec.Struct):
    id: int
    result: _Result


_decode = msgspec.json.Decoder(_Answer).decode


class Gauge:
    """State that all callers of a round share: the next number, the latencies, whether it is over."""

    def __init__(self) -> None:
        self.numbers: Iterator[int] = itertools.count(FIRST_ID)
        self.latencies: list[float] = []
        self.over = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def check(self, body: bytes, number: int, shot: Shot) -> None:
        try:
            answer = _decode(body)
            right = answer.id == number and answer.result.content[0].text == shot.text(number)
        except (msgspec.DecodeError, IndexError):
            right = False
        if not right:
            self.fail(f"asked {shot.numbered(number)[-400:]!r}, answered {body[:400]!r}")

    def fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_exception(WrongAnswer(why))


class HttpCaller(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, gauge: Gauge, shots: Sequence[Shot], start: int) -> None:
        self._gauge = gauge
        self._shots = shots
        self._next = start
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._events = False
        self._transport: asyncio.Transport
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.idle.done():
            self._gauge.fail(f"the connection was closed: {exc}")

    def fire(self) -> None:
        """Ask the next thing."""
        shots = self._shots
        self._shot = shots[self._next % len(shots)]
        self._next += 1
        self._number = next(self._gauge.numbers)
        request = self._shot.numbered(self._number)
        self._asked = time.perf_counter()
        self._transport.write(request)

    def on_header(self, name: bytes, value: bytes) -> None:
        if value.startswith(b"text/event-stream"):
            self._events = True

    def on_body(self, body: bytes) -> None:
        self._body = self._body + body if self._body else body

    def on_message_complete(self) -> None:
        gauge = self._gauge
        gauge.latencies.append(time.perf_counter() - self._asked)
        body, self._body = self._body, b""
        if self._events:
            self._events = False
            body = last_event(body)
        gauge.check(body, self._number, self._shot)
        if not gauge.over:
            self.fire()
        else:
            self.idle.set_result(None)
            self._transport.close()


class PipeCaller(asyncio.Protocol):
    """One client process on its pipes, with several calls under way."""

    def __init__(self, gauge: Gauge, shots: Sequence[Shot], write: Callable[[bytes], Any]) -> None:
        self._gauge = gauge
        self._shots = shots
        self._write = write
        self._next = 0
        self._held = b""
        self._under_way: dict[int, tuple[Shot, float]] = {}
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fire(self) -> None:
        """Ask one thing more."""
        shot = self._shots[self._next % len(self._shots)]
        self._next += 1
        number = next(self._gauge.numbers)
        request = shot.numbered(number)
        self._under_way[number] = (shot, time.perf_counter())
        self._write(request)

    def feed(self, data: bytes) -> None:
        """Lines that came back."""
        *complete, self._held = (self._held + data).split(b"\n")
        gauge = self._gauge
        now = time.perf_counter()
        for line in complete:
            try:
                answer = _decode(line)
                shot, asked = self._under_way.pop(answer.id)
                right = answer.result.content[0].text == shot.text(answer.id)
            except (msgspec.DecodeError, IndexError, KeyError):
                right = False
            if not right:
                gauge.fail(f"answered {line[:400]!r}")
                return
            gauge.latencies.append(now - asked)
            if not gauge.over:
                self.fire()
        if gauge.over and not self._under_way and not self.idle.done():
            self.idle.set_result(None)


async def http_round(
    port: int, shots: Sequence[Sequence[Shot]], concurrency: int, seconds: float, cpu: Callable[[], float]
) -> Round:
    """`concurrency` callers for so long. `shots` has one list for each session."""
    loop = asyncio.get_running_loop()
    gauge = Gauge()
    callers: list[HttpCaller] = []
    try:
        for index in range(concurrency):
            mine = shots[index % len(shots)]
            caller = HttpCaller(gauge, mine, index * 37)
            await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", port)  # type: ignore[misc]
            callers.append(caller)
        return await _timed(gauge, callers, [caller.fire for caller in callers], seconds, cpu)
    finally:
        for caller in callers:
            if not caller.idle.done():
                caller.idle.set_result(None)
            caller._transport.abort()


async def pipe_round(
    process: asyncio.subprocess.Process,
    shots: Sequence[Shot],
    concurrency: int,
    seconds: float,
    cpu: Callable[[], float],
) -> Round:
    """The same over one client's standard streams."""
    assert process.stdin is not None
    gauge = Gauge()
    caller = PipeCaller(gauge, shots, process.stdin.write)
    reading = asyncio.create_task(_read(process, caller))
    try:
        return await _timed(gauge, [caller], [caller.fire] * concurrency, seconds, cpu)
    finally:
        reading.cancel()


async def _read(process: asyncio.subprocess.Process, caller: PipeCaller) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(1 << 18):
        caller.feed(data)


async def _timed(
    gauge: Gauge,
    callers: Sequence[HttpCaller | PipeCaller],
    fires: Sequence[Callable[[], None]],
    seconds: float,
    cpu: Callable[[], float],
) -> Round:
    gc.collect()
    gc.disable()
    try:
        for fire in fires:
            fire()
        await _warm_up(gauge, seconds / 4, WARM_CALLS + 4 * len(fires))
        gauge.latencies.clear()
        used, began = cpu(), time.perf_counter()
        await _let_pass(gauge, seconds)
        used, took = cpu() - used, time.perf_counter() - began
        latencies = sorted(gauge.latencies)
        gauge.over = True
        idle = asyncio.ensure_future(_all_idle(callers))
        await asyncio.wait({idle, gauge.failed}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if gauge.failed.done():
            gauge.failed.result()
        if not idle.done():
            idle.cancel()
            raise WrongAnswer(f"calls were not answered within {PATIENCE_S:g} s")
    finally:
        gc.enable()
    if not latencies:
        raise WrongAnswer(f"not one answer within {seconds:g} s")
    p99 = latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))]
    count = len(latencies)
    return Round(count / took, statistics.median(latencies) * 1e6, p99 * 1e6, used / count * 1e6, count)


async def _all_idle(callers: Sequence[HttpCaller | PipeCaller]) -> None:
    await asyncio.gather(*(caller.idle for caller in callers))


async def _warm_up(gauge: Gauge, seconds: float, calls: int) -> None:
    """Not counted: connections are opened and caches filled. So many calls, but not for ever."""
    began = time.perf_counter()
    await _let_pass(gauge, seconds)
    while len(gauge.latencies) < calls and time.perf_counter() - began < WARM_S:
        await _let_pass(gauge, 0.02)


async def _let_pass(gauge: Gauge, seconds: float) -> None:
    await asyncio.wait({gauge.failed}, timeout=seconds)
    if gauge.failed.done():
        gauge.failed.result()


def last_event(body: bytes) -> bytes:
    """The last message of an event stream."""
    found = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    return next((line for line in reversed(found) if line), b"")


async def ask(port: int, request: bytes, patience: float = PATIENCE_S) -> tuple[int, dict[bytes, bytes], bytes]:
    """One request on a connection of its own: status, headers, body (an event stream's last message)."""
    asking = _Asking()
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: asking, "127.0.0.1", port)
    try:
        transport.write(request)
        await asyncio.wait_for(asking.done, patience)
    finally:
        transport.abort()
    body = b"".join(asking.body)
    events = asking.headers.get(b"content-type", b"").startswith(b"text/event-stream")
    return asking.status, asking.headers, last_event(body) if events else body


async def open_session(port: int, path: str = "/mcp", shape: Shape = BARE["legacy"]) -> str:
    """The handshake. Gives the session's id, empty where the server has none."""
    said = (shape.version.encode(), shape.capabilities)
    params = b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":{"name":"bench","version":"1"}}' % said
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % params
    status, headers, body = await ask(port, post(path, port, hello, ""))
    if status != 200:
        raise WrongAnswer(f"initialize: HTTP {status} {body[:200]!r}")
    session = headers.get(b"mcp-session-id", b"").decode()
    ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    await ask(port, post(path, port, ready, context_headers("legacy", "", session=session)))
    return session


async def list_tools(port: int, era: Era, session: str = "", key: str = "", path: str = "/mcp") -> int:
    """How many tools are listed."""
    from workload import modern_meta

    params = b'{"_meta":%b}' % modern_meta() if era == "modern" else b"{}"
    request = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":%b}' % params
    headers = context_headers(era, "tools/list", session=session) + credential(key)
    status, _, body = await ask(port, post(path, port, request, headers))
    if status != 200:
        raise WrongAnswer(f"tools/list: HTTP {status} {body[:200]!r}")
    return body.count(b'"inputSchema"')


class _Asking(asyncio.Protocol):
    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[bytes, bytes] = {}
        self.body: list[bytes] = []
        self.status = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        self.body.append(data)
        events = self.headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if events and last_event(b"".join(self.body)).endswith(b"}"):
            self.on_message_complete()  # a stream may stay open after what was asked for

    def on_message_complete(self) -> None:
        self.status = self.parser.get_status_code()
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(WrongAnswer(f"the connection was closed: {exc}"))
