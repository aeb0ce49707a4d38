"""The memory that large requests leave behind: each on a connection of its own, in every way a client can send one.

    python bench/large_bodies.py [--requests 10000] [--others 300] [--only NAME ...] [--json FILE]

Three targets: a hub that admits callers without a key, a hub that demands one, and a server of our own over HTTP. Each
way is tried with a small body before memory is read for the first time, so that whatever is imported late has been;
every figure is compared with that. The run ends with 1 where more than `MAX_GROWTH_MB` stay, or where the target no
longer answers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

from process import Process, free_port, memory_mb

ROOT = Path(__file__).parents[1]
SIZE = 10_000_000
SERVER_SIZE = 8_000_000
"""A server of our own takes eight megabytes by default."""
SMALL = 2_000
AT_ONCE = 4
MAX_GROWTH_MB = 20.0
SETTLE_S = 10.0
REST_S = 3.0
"""After a start the hub gives back what it no longer needs."""
PIECES = 20
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
BAD_KEY = "authorization: Bearer ilk_wrong\r\n"


def call_of(tool: str, meta: dict[str, object], size: int) -> bytes:
    """A call whose argument is large."""
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}, "_meta": meta}}
    head, tail = json.dumps(call).encode().split(b'"arguments": {}')
    fill = size - len(head) - len(tail) - 30
    return head + b'"arguments": {"text": "' + b"x" * fill + b'"}' + tail


class Target:
    """An address, and the bytes that are sent to it."""

    def __init__(self, port: int, tool: str, size: int) -> None:
        self.port = port
        self.tool = tool
        self.size = size
        self.call = call_of(tool, META, size)
        self.legacy = call_of(tool, {}, size)
        self.arguments = b'{"text":"' + b"x" * (size - 11) + b'"}'
        self.garbage = b"x" * size
        self.modern = f"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"

    def head(self, method: str, path: str, length: int | None, more: str = "") -> bytes:
        """A request's head; chunked where the length is None."""
        body = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: 127.0.0.1:{self.port}",
            "accept: application/json, text/event-stream",
            "content-type: application/json",
            body,
        ]
        return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode()

    @contextlib.contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """A connection of one's own, reset at the end so that no port waits for it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            yield sock

    def answers(self) -> bool:
        """Whether a small request is answered at all."""
        with self.connected() as sock:
            sock.sendall(self.head("POST", "/mcp", len(INITIALIZE)) + INITIALIZE)
            return sock.recv(65_536).startswith(b"HTTP/1.1 ")

    def exchange(self, head: bytes, body: bytes, pause_s: float = 0.0) -> bytes:
        """Send and read the beginning of the answer. A target that refuses early may reset what is still sent."""
        with self.connected() as sock, contextlib.suppress(ConnectionError):
            sent = True
            try:
                sock.sendall(head)
                if pause_s:
                    step = len(body) // PIECES
                    for at in range(0, len(body), step):
                        sock.sendall(body[at : at + step])
                        time.sleep(pause_s)
                else:
                    sock.sendall(body)
            except ConnectionError:
                sent = False
            answer = sock.recv(65_536)
            return answer if sent or answer else b""
        return b""


Way = Callable[[Target], bytes]


def valid(target: Target) -> bytes:
    return target.exchange(target.head("POST", "/mcp", len(target.call), target.modern), target.call)


def refused(target: Target) -> bytes:
    """Without a key, of a tool that is not there: the plainest way."""
    more = target.modern.replace(f"mcp-name: {target.tool}", "mcp-name: nothing")
    body = target.call.replace(f'"name": "{target.tool}"'.encode(), b'"name": "nothing"', 1)
    return target.exchange(target.head("POST", "/mcp", len(body), more), body)


def wrong_key(target: Target) -> bytes:
    head = target.head("POST", "/mcp", len(target.call), target.modern + BAD_KEY)
    return target.exchange(head, target.call)


def wrong_json(target: Target) -> bytes:
    return target.exchange(target.head("POST", "/mcp", target.size), target.garbage)


def slow(target: Target) -> bytes:
    return target.exchange(target.head("POST", "/mcp", len(target.call), target.modern), target.call, pause_s=0.005)


def cut(target: Target) -> bytes:
    with target.connected() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(target.head("POST", "/mcp", len(target.call), target.modern) + target.call[: target.size // 2])
    return b""


def chunked(target: Target) -> bytes:
    step = 65_536
    pieces = (target.call[at : at + step] for at in range(0, len(target.call), step))
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return target.exchange(target.head("POST", "/mcp", None, target.modern), body)


def get_with_body(target: Target) -> bytes:
    return target.exchange(target.head("GET", "/mcp", len(target.call)), target.call)


def delete_with_body(target: Target) -> bytes:
    return target.exchange(target.head("DELETE", "/mcp", len(target.call)), target.call)


def rest(target: Target) -> bytes:
    return target.exchange(target.head("POST", f"/tools/{target.tool}", len(target.arguments)), target.arguments)


def rest_validate(target: Target) -> bytes:
    return target.exchange(
        target.head("POST", f"/tools/{target.tool}/validate", len(target.arguments)), target.arguments
    )


def rest_cut(target: Target) -> bytes:
    with target.connected() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(target.head("POST", f"/tools/{target.tool}", target.size) + target.garbage[: target.size // 2])
    return b""


def admin(target: Target) -> bytes:
    return target.exchange(target.head("POST", "/admin/why", len(target.arguments)), target.arguments)


def unknown_path(target: Target) -> bytes:
    return target.exchange(target.head("POST", "/nothing/here", target.size), target.garbage)


def sse(target: Target) -> bytes:
    with target.connected() as stream, contextlib.suppress(ConnectionError):
        stream.sendall(target.head("GET", "/sse", 0))
        said = b""
        while b"event: endpoint" not in said or not said.endswith(b"\n\n\r\n"):
            piece = stream.recv(65_536)
            said += piece
            if not piece or said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")):
                return said
        path = said.split(b"data: ")[1].split(b"\n")[0].decode()
        return target.exchange(target.head("POST", path, len(target.legacy)), target.legacy)
    return b""


def session(target: Target) -> bytes:
    with target.connected() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(target.head("POST", "/mcp", len(INITIALIZE)) + INITIALIZE)
        said = sock.recv(65_536)
        name = next((line for line in said.split(b"\r\n") if line.lower().startswith(b"mcp-session-id")), None)
        if name is None:
            return said
        more = name.decode() + "\r\nmcp-protocol-version: 2025-11-25\r\n"
        sock.sendall(target.head("POST", "/mcp", len(target.legacy), more))
        sock.sendall(target.legacy)
        return sock.recv(65_536)
    return b""


def unread(target: Target) -> bytes:
    with target.connected() as sock, contextlib.suppress(ConnectionError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.sendall(target.head("POST", "/mcp", len(target.call), target.modern))
        sock.sendall(target.call)
        # Wait for the answer to begin, and leave it.
        sock.recv(1, socket.MSG_PEEK)
    return b""


WAYS: dict[str, Way] = {
    way.__name__.replace("_", " "): way
    for way in (
        refused,
        valid,
        wrong_json,
        wrong_key,
        slow,
        cut,
        chunked,
        get_with_body,
        delete_with_body,
        rest,
        rest_validate,
        rest_cut,
        admin,
        unknown_path,
        sse,
        session,
        unread,
    )
}


def measured(target: Target, pid: int, before: float, way: Way, count: int) -> dict[str, object]:
    """Memory before and after so many requests, the most there was meanwhile, and what they were answered."""
    peak = before
    done = Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            with contextlib.suppress(OSError):
                peak = max(peak, memory_mb([pid]))

    watcher = Thread(target=watch)
    watcher.start()
    answers: dict[str, int] = {}
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for answer in pool.map(lambda _: way(target), range(count)):
                status = answer[9:12].decode() if answer else "none"
                answers[status] = answers.get(status, 0) + 1
    finally:
        done.set()
        watcher.join()
    seconds = time.monotonic() - began
    at_once = memory_mb([pid])
    after = settled(pid, before)
    return {
        "requests": count,
        "seconds": round(seconds, 1),
        "answers": answers,
        "memory_mb": {
            "before": round(before, 1),
            "peak": round(peak, 1),
            "at once": round(at_once, 1),
            "after": round(after, 1),
        },
        "holds": after - before <= MAX_GROWTH_MB and target.answers(),
    }


def settled(pid: int, before: float) -> float:
    """Memory once it no longer falls, or is what it was."""
    deadline = time.monotonic() + SETTLE_S
    least = memory_mb([pid])
    while least - before > MAX_GROWTH_MB / 2 and time.monotonic() < deadline:
        time.sleep(0.25)
        least = min(least, memory_mb([pid]))
    return least


@contextlib.contextmanager
def running(kind: str, folder: Path) -> Iterator[tuple[Target, int, float]]:
    """A target, its process, and its memory once it has answered small requests of every kind."""
    port = free_port()
    env = {"INTERLOCK_HOME": str(folder), "PYTHONPATH": str(ROOT / "src")}
    me = str(Path(__file__).resolve())
    if kind == "server":
        command = [sys.executable, me, "--serve", str(port)]
    else:
        config = folder / "bench.toml"
        config.write_text(
            f'[hub]\nlisten = "127.0.0.1:{port}"\nanonymous = {"true" if kind == "open hub" else "false"}\n'
            f'[servers.s]\ncommand = [{json.dumps(sys.executable)}, {json.dumps(me)}, "--serve", "0"]\n'
        )
        command = [sys.executable, "-m", "interlock.cli", "up", "--json", "--config", str(config)]
    process = Process(command, core=None, log=folder / "log", env=env, cwd=folder)
    try:
        process.wait_port(port)
        tool = "echo" if kind == "server" else "s__echo"
        small = Target(port, tool, SMALL)
        for way in [*WAYS.values()] * 3:
            way(small)
        time.sleep(REST_S)
        yield Target(port, tool, SERVER_SIZE if kind == "server" else SIZE), process.pid, memory_mb([process.pid])
    finally:
        process.end()


def serve(port: int) -> None:
    """A server of our own: one tool that says how much it was given."""
    from interlock import Server

    server = Server("large", "1.0.0")

    @server.tool
    def echo(text: str) -> str:
        return str(len(text))

    if port:
        server.run_http(port=port)
    else:
        server.run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="of the plainest way, to each target")
    parser.add_argument("--others", type=int, default=300, help="of each other way")
    parser.add_argument("--only", nargs="*", choices=list(WAYS), default=None)
    parser.add_argument("--targets", nargs="*", default=["closed hub", "open hub", "server"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return 0
    results: dict[str, dict[str, object]] = {}
    for kind in options.targets:
        with tempfile.TemporaryDirectory() as folder, running(kind, Path(folder)) as (target, pid, before):
            for name, way in WAYS.items():
                if options.only is not None and name not in options.only:
                    continue
                count = options.requests if way is refused or options.only else options.others
                row = results[f"{kind}, {name}"] = measured(target, pid, before, way, count)
                memory = row["memory_mb"]
                said = f"{kind:10} {name:16} {count:6} {row['seconds']:6} s {memory} {row['answers']}"
                print(said, "" if row["holds"] else "TOO MUCH STAYS", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if all(row["holds"] for row in results.values()) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(ROOT / "src"))
    sys.exit(main())
