"""Tool calls through `interlock.Server` next to the official SDK's server: the same tool, the same load, one run.

`python bench/server.py [--json FILE]`. Servers run on one core and the load on another, where there are two. Every
answer is checked. What counts is the ratio; the bar is eight times the SDK's calls per second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
SECONDS = 2.0
ROUNDS = 3
BAR = 8.0
META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
)
CALL = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":%d,"b":1},' + META + "}}"

OURS = """
import sys
from interlock.server import Server
server = Server("bench")

@server.tool
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run() if sys.argv[1] == "stdio" else server.run_http(port=int(sys.argv[1]))
"""
THEIRS = """
import logging, sys
from mcp.server.mcpserver import MCPServer
logging.disable(logging.CRITICAL)
server = MCPServer("bench")

@server.tool()
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[1]), json_response=True, stateless_http=True)
"""
PROGRAMS = {"interlock": OURS, "official SDK": THEIRS}


class Figures(msgspec.Struct):
    """What one server did over one transport."""

    server: str
    transport: str
    concurrency: int
    calls_per_second: float
    cpu_us_per_call: float
    p50_ms: float
    p99_ms: float


class Round(msgspec.Struct):
    """One run against one process."""

    calls_per_second: float
    cpu_us_per_call: float
    times: list[float]


class Tally:
    """Every request and answer with its moment. Answers are read, and checked, when the clock has stopped."""

    def __init__(self) -> None:
        self._sent: list[float] = []
        self._came: list[tuple[float, bytes]] = []

    def request(self) -> bytes:
        number = len(self._sent)
        self._sent.append(time.perf_counter())
        return (CALL % (number, number)).encode()

    def answered(self, body: bytes) -> None:
        self._came.append((time.perf_counter(), body))

    def begin(self) -> None:
        """The warm-up is over."""
        self._came.clear()

    def latencies(self) -> list[float]:
        """How long each call took. Stops everything if an answer is wrong."""
        times: list[float] = []
        for moment, body in self._came:
            answer = msgspec.json.decode(body)
            number = answer["id"]
            if int(answer["result"]["content"][0]["text"]) != number + 1:
                raise SystemExit(f"wrong answer: {body!r}")
            times.append(moment - self._sent[number])
        return times


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if len(CORES) > 1:
        os.sched_setaffinity(0, {CORES[-1]})
    figures: list[Figures] = []
    for transport, load in (("stdio", over_stdio), ("http", over_http)):
        for concurrency in (1, 32):
            for name, program in PROGRAMS.items():
                rounds = [await load(program, concurrency) for _ in range(ROUNDS)]
                figures.append(median(name, transport, concurrency, rounds))
                show(figures[-1])
    met = True
    for theirs, ours in ((row, figures[place - 1]) for place, row in enumerate(figures) if row.server != "interlock"):
        ratio = ours.calls_per_second / theirs.calls_per_second
        cpu = theirs.cpu_us_per_call / ours.cpu_us_per_call
        met &= ratio >= BAR or ours.concurrency == 1
        print(f"{ours.transport:6} x{ours.concurrency:<3} {ratio:5.1f} times the calls/s, {cpu:5.1f} times less CPU")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2))
    print("bar met" if met else f"bar of {BAR:.0f} missed")


def median(name: str, transport: str, concurrency: int, rounds: list[Round]) -> Figures:
    """Medians over the rounds; the latencies are those of the round with the median rate."""
    rounds = sorted(rounds, key=lambda one: one.calls_per_second)
    middle = rounds[len(rounds) // 2]
    times = sorted(middle.times)
    return Figures(
        name,
        transport,
        concurrency,
        middle.calls_per_second,
        statistics.median(one.cpu_us_per_call for one in rounds),
        times[len(times) // 2] * 1000,
        times[int(len(times) * 0.99)] * 1000,
    )


def show(row: Figures) -> None:
    print(
        f"{row.transport:6} x{row.concurrency:<3} {row.server:13} {row.calls_per_second:9.0f} calls/s"
        f" {row.cpu_us_per_call:8.1f} us CPU/call  p50 {row.p50_ms:.2f} ms  p99 {row.p99_ms:.2f} ms",
        flush=True,
    )


def command(program: str, mode: str) -> list[str]:
    pin = ["taskset", "-c", str(CORES[0])] if len(CORES) > 1 else []
    return [*pin, sys.executable, "-c", program, mode]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, as Linux counts it; not a number elsewhere."""
    if not Path("/proc/self/stat").exists():
        return math.nan
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(pid: int, tally: Tally, run: Callable[[float], Awaitable[None]]) -> Round:
    """One round, after a short warm-up."""
    await run(SECONDS / 4)
    tally.begin()
    started, cpu = time.perf_counter(), cpu_seconds(pid)
    await run(SECONDS)
    elapsed, spent = time.perf_counter() - started, cpu_seconds(pid) - cpu
    times = tally.latencies()
    return Round(len(times) / elapsed, spent / len(times) * 1e6, times)


class Pipes(asyncio.SubprocessProtocol):
    """Keeps as many calls under way as it began with, until the end."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._rest = b""
        self._open = 0
        self._end = 0.0
        self._done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process: Any = transport
        self._writer: Any = process.get_pipe_transport(0)

    async def run(self, concurrency: int, seconds: float) -> None:
        self._done.clear()
        self._end = time.perf_counter() + seconds
        self._ask(concurrency)
        await self._done.wait()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.tally.answered(line)
        self._open -= len(lines)
        if time.perf_counter() < self._end:
            self._ask(len(lines))
        elif self._open == 0:
            self._done.set()

    def _ask(self, count: int) -> None:
        self._open += count
        self._writer.write(b"".join(self.tally.request() + b"\n" for _ in range(count)))


async def over_stdio(program: str, concurrency: int) -> Round:
    loop = asyncio.get_running_loop()
    transport, pipes = await loop.subprocess_exec(Pipes, *command(program, "stdio"), stderr=None, env=environment())
    try:
        return await measure(transport.get_pid(), pipes.tally, lambda seconds: pipes.run(concurrency, seconds))
    finally:
        transport.kill()
        transport.close()


class Connection(asyncio.Protocol):
    """One keep-alive connection with one call under way at a time."""

    def __init__(self, tally: Tally, port: int) -> None:
        self._tally = tally
        self._port = port
        self._held = b""
        self._end = 0.0
        self.done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def begin(self, end: float) -> None:
        self._end = end
        self.done.clear()
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, body = self._held.partition(b"\r\n\r\n")
        if not found:
            return
        length = LENGTH.search(head)
        if length is None:
            raise SystemExit(f"an answer without its length: {head!r}")
        if len(body) < int(length[1]):
            return
        self._held = b""
        self._tally.answered(body)
        if time.perf_counter() < self._end:
            self._ask()
        else:
            self.done.set()

    def _ask(self) -> None:
        body = self._tally.request()
        self.transport.write(HEAD % (self._port, len(body)) + body)


async def over_http(program: str, concurrency: int) -> Round:
    async with listening(program) as (port, pid):
        tally = Tally()
        loop = asyncio.get_running_loop()
        connections = [
            (await loop.create_connection(lambda: Connection(tally, port), "127.0.0.1", port))[1]
            for _ in range(concurrency)
        ]

        async def run(seconds: float) -> None:
            end = time.perf_counter() + seconds
            for connection in connections:
                connection.begin(end)
            for connection in connections:
                await connection.done.wait()

        try:
            return await measure(pid, tally, run)
        finally:
            for connection in connections:
                connection.transport.close()


HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
    b"Mcp-Method: tools/call\r\nMcp-Name: add\r\nContent-Length: %d\r\n\r\n"
)
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@contextlib.asynccontextmanager
async def listening(program: str) -> AsyncIterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *command(program, str(port)), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        await process.wait()


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """So that the load costs as little as can be."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(main())
