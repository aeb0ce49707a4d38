"""Streams through the hub: how late the first chunk is, how many chunks a second, and what a stalled reader holds.

    python bench/streaming.py [--calls 300] [--chunks 30000] [--strict]
    python bench/streaming.py serve

A real hub with one server over standard streams; the client reads events over HTTP. The bars: the first chunk within
2 ms at the median, 10,000 chunks for each second of the hub's processor time, under 10 MB for a reader that stalls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.cli.control.hub_link import HubLink
from process import cpu_seconds

HERE = Path(__file__).resolve()
SOURCE = HERE.parents[1] / "src"
PREFIX = "io.modelcontextprotocol/"
OFFER = {"mgp": {"version": "0.2.0", "extensions": ["streaming"]}}
META = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": OFFER}
STAMP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
STALLED_BYTES = 64 * 1024 * 1024


def serve() -> None:
    """A server that streams as many chunks as it is asked for, each with the time at which it was written."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        id_, method = message.get("id"), message.get("method")
        if id_ is None:
            continue
        result: dict[str, Any]
        if method == "server/discover":
            capabilities = {"tools": {}, **OFFER}
            result = {**STAMP, "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        elif method == "tools/list":
            result = {**STAMP, "tools": [{"name": "stream", "inputSchema": {"type": "object"}}]}
        else:
            asked = message["params"]["arguments"]
            for index in range(asked["count"]):
                text = f"{time.perf_counter_ns()} ".ljust(asked["size"])
                params = {"request_id": id_, "index": index, "content": {"type": "text", "text": text}, "done": False}
                said = {"jsonrpc": "2.0", "method": "notifications/mgp.stream.chunk", "params": params}
                out.write(json.dumps(said).encode() + b"\n")
                if asked["count"] == 1:
                    out.flush()
            result = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        out.write(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode() + b"\n")
        out.flush()


@asynccontextmanager
async def running() -> AsyncIterator[tuple[int, int]]:
    """A hub before that server: its process and its port."""
    with tempfile.TemporaryDirectory(prefix="ils") as folder:
        home, config = Path(folder) / "h", Path(folder) / "interlock.toml"
        command = json.dumps([sys.executable, str(HERE), "serve"])
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(home), "HOME": folder}
        tables = f"[servers.s]\ncommand = {command}\nera = 'modern'\nenv = {{ PYTHONPATH = '{SOURCE}' }}\n"
        config.write_text(f'[hub]\nlisten = "127.0.0.1:0"\n{tables}')
        hub = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "interlock.cli", "up", "--config", str(config), env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield hub.pid, await asyncio.to_thread(port_of, home)
        finally:
            hub.terminate()
            await hub.wait()


def port_of(home: Path) -> int:
    """Wait for the hub and its server."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with HubLink.open(home) as link:
                status = link.ask("hub/status")
                if status["servers"][0]["state"] == "connected":
                    return int(status["listen"].rpartition(":")[2])
        except Exception:
            time.sleep(0.05)
    raise SystemExit("the hub did not come up")


class Line:
    """One kept connection of one client."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self, limit: int = 2**16) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=limit)

    def ask(self, count: int, size: int) -> None:
        """Ask for a stream."""
        params = {"name": "s__stream", "arguments": {"count": count, "size": size}, "_mgp": {"stream": True}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": META}}
        body = json.dumps(request).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
            f"mcp-method: tools/call\r\nmcp-name: s__stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def first(self) -> float:
        """How late the only chunk of a stream is, in milliseconds."""
        self.ask(1, 32)
        while b"stream.chunk" not in (line := await self.reader.readline()):
            pass
        late = (time.perf_counter_ns() - int(line.partition(b'"text":"')[2].partition(b" ")[0])) / 1e6
        while await self.reader.readline() != b"0\r\n":
            pass
        await self.reader.readline()
        return late

    async def all(self, count: int, size: int) -> int:
        """The chunks of a stream that came."""
        self.ask(count, size)
        came = 0
        while (line := await self.reader.readline()) != b"0\r\n":
            came += b"stream.chunk" in line
        await self.reader.readline()
        return came


def resident_mb(pid: int) -> float:
    """The memory of a process that is not shared."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


async def stalled_mb(pid: int, port: int) -> float:
    """The memory that the hub holds for a client that asks for 64 MiB and reads nothing."""
    before = resident_mb(pid)
    line = Line(port)
    await line.open(limit=1024)
    line.ask(STALLED_BYTES // 1024, 1024)
    most, still = before, 0
    while still < 10:  # until it has not grown for a second
        await asyncio.sleep(0.1)
        now = resident_mb(pid)
        still = 0 if now > most + 0.1 else still + 1
        most = max(most, now)
    line.writer.transport.abort()
    return most - before


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--chunks", type=int, default=30_000)
    parser.add_argument("--strict", action="store_true", help="end with 1 if a bar does not hold")
    options = parser.parse_args()
    async with running() as (pid, port):
        line = Line(port)
        await line.open()
        for _ in range(20):
            await line.first()
        late = [await line.first() for _ in range(options.calls)]
        await line.all(2_000, 64)
        began, used = time.perf_counter(), cpu_seconds([pid])
        came = await line.all(options.chunks, 64)
        took, used = time.perf_counter() - began, cpu_seconds([pid]) - used
        held = await stalled_mb(pid, port)
    figures = {
        "first_chunk_ms_p50": round(statistics.median(late), 2),
        "first_chunk_ms_p99": round(statistics.quantiles(late, n=100)[98], 2),
        "chunks": came,
        "chunks_per_s": round(came / took),
        "chunks_per_cpu_s": round(came / used),
        "stalled_reader_mb": round(held, 1),
    }
    print(json.dumps(figures))
    holds = figures["first_chunk_ms_p50"] <= 2 and figures["chunks_per_cpu_s"] >= 10_000 and held < 10
    return 0 if (holds and came == options.chunks) or not options.strict else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        import uvloop

        sys.exit(uvloop.run(main()))
