"""Many principals with colliding request ids over shared servers: every answer must reach its principal.

    python bench/confidentiality.py [--principals 200] [--calls 1000000]

A real hub, one upstream process over standard streams and one over HTTP, asked in turn, one keep-alive connection per
principal. Every principal uses the same ids. Each call carries a mark that no other call has, and the answer must bring
it back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import httptools

from interlock.cli.control.hub_link import HubLink
from process import free_port, memory_mb

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

UPSTREAM = """
import asyncio, sys, json
SCHEMA = {"type": "object", "properties": {"mark": {"type": "string"}}, "additionalProperties": False}
META = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

def answer(message):
    method = message["method"]
    if method == "server/discover":
        result = {**META, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "tools/list":
        result = {**META, "tools": [{"name": "echo", "inputSchema": SCHEMA}]}
    else:
        mark = message["params"]["arguments"]["mark"]
        result = {"resultType": "complete", "content": [{"type": "text", "text": mark}]}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, separators=(",", ":"))

async def posted(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\\r\\n")[0])
            said = answer(json.loads(await reader.readexactly(length))).encode()
            head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
            writer.write(head % len(said) + said)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def serve(port):
    async with await asyncio.start_server(posted, "127.0.0.1", port) as server:
        await server.serve_forever()

if len(sys.argv) > 1:
    asyncio.run(serve(int(sys.argv[1])))
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        print(answer(message), flush=True)
"""


KEPT: list[float] = []
"""The hub's memory at each tenth of the calls."""


class Answer(Exception):
    """A wrong or missing answer."""


class Caller(asyncio.Protocol):
    """One principal on one connection: asks, checks, asks again."""

    def __init__(self, number: int, key: str, port: int, calls: int, done: asyncio.Future[None]) -> None:
        self.number, self.key, self.port, self.calls, self.done = number, key, port, calls, done
        self.turn = 0
        self.body = b""
        self.parser = httptools.HttpResponseParser(self)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.ask()

    def ask(self) -> None:
        self.turn += 1
        self.mark = f"{self.number}.{self.turn}"
        name = ("u__echo", "w__echo")[self.turn % 2]
        params = {"name": name, "arguments": {"mark": self.mark}, "_meta": META}
        request = {"jsonrpc": "2.0", "id": self.turn, "method": "tools/call", "params": params}
        body = json.dumps(request, separators=(",", ":")).encode()
        self.transport.write(
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %b\r\n"
            b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            b"mcp-protocol-version: 2026-07-28\r\n"
            b"mcp-method: tools/call\r\nmcp-name: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (self.port, self.key.encode(), name.encode(), len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        answer, self.body = json.loads(self.body), b""
        got = answer.get("result", {}).get("content", [{}])[0].get("text")
        if answer.get("id") != self.turn or got != self.mark:
            self.end(Answer(f"principal {self.number} asked {self.mark!r} and got {answer}"))
        elif self.turn == self.calls:
            self.end(None)
        else:
            self.parser = httptools.HttpResponseParser(self)
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(Answer(f"principal {self.number} lost its connection at call {self.turn}"))

    def end(self, fault: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(fault) if fault else self.done.set_result(None)
            self.transport.close()


@contextlib.asynccontextmanager
async def hub_with_keys() -> AsyncIterator[tuple[Process, Path]]:
    """A hub before two servers, which lets nobody in without a key; and its home."""
    with tempfile.TemporaryDirectory(prefix="ilc") as folder:
        home = Path(folder) / "h"
        script = Path(folder) / "upstream.py"
        script.write_text(UPSTREAM)
        config = Path(folder) / "interlock.toml"
        command = [sys.executable, "-S", str(script)]
        port = free_port()
        config.write_text(
            f'[hub]\nlisten = "127.0.0.1:0"\nanonymous = false\n'
            f'[servers.u]\ncommand = {json.dumps(command)}\nera = "modern"\n'
            f'[servers.w]\nurl = "http://127.0.0.1:{port}/mcp"\nera = "modern"\n'
        )
        web = await asyncio.create_subprocess_exec(*command, str(port))
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(home), "HOME": folder}
        hub = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "interlock.cli", "up", "--config", str(config), env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield hub, home
        finally:
            hub.terminate()
            await hub.wait()
            web.terminate()
            await web.wait()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="write the outcome to this file")
    options = parser.parse_args()
    each = options.calls // options.principals
    async with hub_with_keys() as (hub, home):
        port, keys = await asyncio.to_thread(prepare, home, options.principals)
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        waits = [loop.create_future() for _ in keys]
        callers = [Caller(n, key, port, each, done) for n, (key, done) in enumerate(zip(keys, waits, strict=True))]
        for caller in callers:
            await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", port)
        watch = asyncio.create_task(watched(hub.pid, callers, options.calls))
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        seconds = time.monotonic() - began
        watch.cancel()
        held = [*KEPT, memory_mb([hub.pid])]
    faults = [str(outcome) for outcome in outcomes if outcome is not None]
    report = {
        "principals": len(keys),
        "calls": each * len(keys),
        "misdelivered": len(faults),
        "seconds": round(seconds, 1),
        "calls_per_second": round(each * len(keys) / seconds),
        "memory_mb": [round(one, 1) for one in held],
    }
    print(json.dumps(report))
    for fault in faults[:10]:
        print(fault, file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(report))
    return 1 if faults else 0


async def watched(pid: int, callers: list[Caller], calls: int) -> None:
    """Say how far it is at every tenth, and note the hub's memory then: it must not grow with the calls."""
    for tenth in range(1, 10):
        while sum(caller.turn for caller in callers) < calls * tenth // 10:
            await asyncio.sleep(1)
        KEPT.append(memory_mb([pid]))
        print(f"{tenth * 10}%, hub at {KEPT[-1]:.1f} MB", file=sys.stderr, flush=True)


def prepare(home: Path, principals: int) -> tuple[int, list[str]]:
    """Wait for the hub and its server; make a key for each principal."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with HubLink.open(home) as link:
                status = link.ask("hub/status")
                if status["servers"][0]["state"] == "connected":
                    port = int(status["listen"].rpartition(":")[2])
                    keys = [link.ask("hub/keys.create", {"agent": f"agent{n}"})["key"] for n in range(principals)]
                    return port, keys
        except Exception:
            time.sleep(0.05)
    raise SystemExit("the hub did not come up")


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(main()))
