"""Structured nonsense for a while: HTTP heads, JSON-RPC envelopes and answers of servers that almost mean something.

    python bench/fuzz.py [--seconds 600] [--seed N]

A hub runs in a thread of its own, in front of a server whose answers are made up. Hypothesis writes messages from their
grammar and breaks them. After each: the peer was answered or the connection closed (I9), no fault of the hub's own was
logged or told, a neighbour is served, and no callback of the loop took longer than 5 ms of processor time, the
collector's turns aside. At the end memory is within 64 MB of its value after the first minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from attacks.watchdog import Watchdog, watching
from hub.running_hub import RunningHub, running_hub
from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from process import memory_mb

MAX_MS = 5.0
ANSWER_S = 30.0
GROWTH_MB = 64.0
WARM_S = 60.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
METHODS = (
    "tools/call", "tools/list", "resources/read", "resources/subscribe", "prompts/get", "initialize", "ping",
    "server/discover", "subscriptions/listen", "completion/complete", "logging/setLevel", "tasks/get", "tasks/list",
    "mgp/tools/discover", "mgp/health/ping", "mgp/access/query", "notifications/cancelled", "notifications/progress",
)  # fmt: skip
NAMES = ("web__ok", "web__nothing", "find_tools", "request_tools", "call_tool", "", "x" * 300, "ok", "web__ok\u202e")


class Failed(Exception):
    """Something that must hold does not."""


# What is sent

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
    | st.sampled_from(NAMES + METHODS)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=24,
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(NAMES) | JSON,
        "arguments": st.dictionaries(st.text(max_size=8), JSON, max_size=4) | JSON,
        "uri": st.sampled_from(("interlock://web/x:y", "x:y", "", "interlock://")) | JSON,
        "_meta": st.just(META) | st.dictionaries(st.sampled_from((*META, "progressToken", "trace_id")), JSON) | JSON,
        "protocolVersion": st.sampled_from(("2025-11-25", "2024-11-05", "2026-07-28")) | JSON,
        "capabilities": JSON,
        "clientInfo": JSON,
        "inputResponses": JSON,
        "requestState": JSON,
        "cursor": JSON,
        "notifications": JSON,
        "taskId": JSON,
        "level": JSON,
        "ref": JSON,
    },
)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers(0, 9) | JSON,
        "method": st.sampled_from(METHODS) | JSON,
        "params": PARAMS | JSON,
        "result": JSON,
        "error": JSON,
    },
)
CALLS = st.builds(
    lambda method, params: {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}},
    st.sampled_from(METHODS),
    PARAMS,
)


def _broken(text: bytes, at: float, with_: bytes, how: int) -> bytes:
    place = int(at * len(text))
    match how:
        case 0:
            return text
        case 1:
            return text[:place] + with_ + text[place:]
        case 2:
            return text[:place]
        case _:
            return text[:place] + with_ + text[place + len(with_) :]


ODD = st.sampled_from((b"\x00", b"\xff", b'"', b"{", b"}" * 3, b"[" * 600, b"\r\n", b"\n", b",", b"\\u", b"1e999")) | (
    st.binary(max_size=6)
)
BROKEN = st.tuples(st.floats(0, 1), ODD, st.sampled_from((0, 0, 0, 1, 2, 3)))
BODIES = st.builds(
    lambda value, how: _broken(json.dumps(value).encode("utf-8", "surrogatepass"), *how),
    CALLS | ENVELOPES | st.lists(ENVELOPES, max_size=3) | JSON,
    BROKEN,
)
HEADERS = st.lists(
    st.sampled_from(
        (
            b"mcp-protocol-version: 2026-07-28", b"mcp-protocol-version: 2025-11-25", b"mcp-method: tools/call",
            b"mcp-name: web__ok", b"mcp-session-id: n1.w0.x", b"last-event-id: px.1", b"accept: */*",
            b"accept: text/html",
            b"authorization: Bearer x", b"authorization: Basic =", b"origin: http://evil.test", b"connection: close",
            b"connection: upgrade", b"upgrade: websocket", b"expect: 100-continue", b"te: trailers",
            b"content-length: 5",
            b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"host: elsewhere", b"cookie: a=b",
            b"content-encoding: gzip", b"traceparent: 00-0-0-00", b" folded", b"x" * 9000 + b": y", b"no colon",
        )
    ),
    max_size=5,
)  # fmt: skip
PATHS = st.sampled_from(
    (b"/mcp", b"/mcp/", b"/servers/web/mcp", b"/servers/none/mcp", b"/sse", b"/messages/", b"/admin/status",
     b"/v1/tools", b"/metrics", b"/readyz", b"/console", b"/ws?topic=x", b"*", b"//mcp",
     b"/%2e%2e/mcp", b"/mcp?x=" + b"y" * 5000)
)  # fmt: skip
VERBS = st.sampled_from(
    (b"POST", b"POST", b"POST", b"GET", b"DELETE", b"OPTIONS", b"HEAD", b"PUT", b"CONNECT", b"P\x00ST")
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """The bytes of one connection: one or two requests, whole or broken."""
    text = b""
    for _ in range(draw(st.integers(1, 2))):
        body = draw(BODIES)
        lines = [
            b"%b %b HTTP/1.1" % (draw(VERBS), draw(PATHS)),
            b"host: 127.0.0.1:%d",
            b"content-type: application/json",
            b"accept: application/json, text/event-stream",
            *draw(HEADERS),
            b"content-length: %d" % max(0, len(body) + draw(st.sampled_from((0, 0, 0, 0, -1, 1)))),
        ]
        text += _broken(b"\r\n".join(lines), *draw(BROKEN)) + b"\r\n\r\n" + body
    return text


ANSWERS = st.tuples(
    st.sampled_from((200, 200, 200, 200, 202, 204, 301, 400, 401, 404, 429, 500, 503)),
    st.sampled_from(
        (
            b"application/json",
            b"application/json",
            b"text/event-stream",
            b"text/event-stream",
            b"text/html",
            b"",
            b"\xff",
        )
    ),
    st.builds(
        lambda value, how: _broken(json.dumps(value).encode("utf-8", "surrogatepass"), *how),
        st.builds(
            lambda result, error, more: {"jsonrpc": "2.0", "id": "$ID", **result, **error, **more},
            st.just({})
            | st.builds(
                lambda fields: {"result": fields},
                st.fixed_dictionaries(
                    {},
                    optional={
                        "content": st.lists(
                            st.fixed_dictionaries(
                                {"type": st.sampled_from(("text", "image", "audio", "resource", "resource_link", "x"))},
                                optional={"text": JSON, "data": JSON, "resource": JSON, "uri": JSON, "mimeType": JSON},
                            ),
                            max_size=3,
                        )
                        | JSON,
                        "structuredContent": JSON,
                        "isError": st.booleans() | JSON,
                        "resultType": st.sampled_from(("complete", "input_required", "task")) | JSON,
                        "inputRequests": st.dictionaries(
                            st.text(max_size=5),
                            st.fixed_dictionaries(
                                {"method": st.sampled_from(("elicitation/create", "sampling/createMessage", "x"))},
                                optional={"params": JSON},
                            )
                            | JSON,
                            max_size=3,
                        )
                        | JSON,
                        "requestState": JSON,
                        "task": JSON,
                        "_meta": JSON,
                        "_mgp": JSON,
                    },
                )
                | JSON,
            ),
            st.just({})
            | st.builds(
                lambda fields: {"error": fields},
                st.fixed_dictionaries(
                    {}, optional={"code": st.integers(-(2**40), 2**40) | JSON, "message": JSON, "data": JSON}
                )
                | JSON,
            ),
            st.dictionaries(st.sampled_from(("method", "params", "extra", "jsonrpc")), JSON, max_size=1),
        )
        | ENVELOPES
        | JSON,
        BROKEN,
    ),
    st.sampled_from((b"%b", b"%b", b"%b %b", b"", b"event: x\nid: %b")),
)


# Who is spoken to

Answer = tuple[int, bytes, bytes, bytes]


class MadeUpServer(ThreadingHTTPServer):
    """A server of the stateless era that answers calls of its tool with whatever it is given."""

    daemon_threads = True
    answer: Answer | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The hub hung up."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MadeUpServer

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        id_, method = message.get("id"), message.get("method", "")
        if id_ is None:
            return self.put(202, b"application/json", b"")
        if method == "tools/call" and self.server.answer is not None:
            status, kind, body, frame = self.server.answer
            body = body.replace(b'"$ID"', json.dumps(id_).encode())
            if kind == b"text/event-stream":
                body = frame.replace(b"%b", b"data: " + body + b"\n\n") if frame else body
            return self.put(status, kind, body)
        results: dict[str, Any] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": [{"name": "ok", "inputSchema": {"type": "object"}}], "ttlMs": 60000},
            "tools/call": {"content": [{"type": "text", "text": "fine"}]},
        }
        result = {"resultType": "complete", "cacheScope": "public", "ttlMs": 0, **results.get(method, {})}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "result": result}
        if method not in results:
            answer = {"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "no"}}
        return self.put(200, b"application/json", json.dumps(answer).encode())

    def put(self, status: int, kind: bytes, body: bytes) -> None:
        self.wfile.write(
            b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (status, kind, len(body), body)
        )

    def do_GET(self) -> None:
        self.put(405, b"text/plain", b"")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Faults(logging.Handler):
    """What the hub itself calls a fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record)[-3000:])


class Subject:
    """A hub in a thread of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.port = 0
        self.faults = Faults()
        self._folder, self._url = folder, url
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    async def _run(self) -> None:
        self._loop.set_exception_handler(lambda _, told: self.faults.seen.append(repr(told)))
        hub = HubSettings(timeouts=TimeoutSettings(tool_s=5, discovery_s=20))
        servers = {"web": ServerSettings(url=self._url, era="modern")}
        async with running_hub(self._folder, servers, hub=hub) as running:
            self._running: RunningHub = running
            self.port = int(running.url.rpartition(":")[2])
            self._ready.set()
            await self._over.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[Subject]:
        logging.getLogger().addHandler(self.faults)
        self._thread.start()
        if not self._ready.wait(60):
            raise Failed("the hub did not start")
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(60)

    def send(self, text: bytes) -> bytes:
        """What comes back until the hub hangs up; the client sends nothing more."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S) as line:
            line.settimeout(ANSWER_S)
            got = b""
            try:
                line.sendall(text.replace(b"127.0.0.1:%d", b"127.0.0.1:%d" % self.port))
                line.shutdown(socket.SHUT_WR)
                while chunk := line.recv(65536):
                    got += chunk
                    if b"text/event-stream" in got:
                        return got  # It listens, for as long as it likes.
            except TimeoutError:
                raise Failed(f"I9: no end within {ANSWER_S:g} s; so far {got[:300]!r}") from None
            except OSError:
                return got  # The hub hung up, as it may.
            return got

    def call(self) -> bytes:
        """Call the tool of the made-up server."""
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
             "params": {"name": "web__ok", "arguments": {}, "_meta": META}}
        ).encode()  # fmt: skip
        head = (
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
            b"mcp-method: tools/call\r\nmcp-name: web__ok\r\ncontent-length: " + str(len(body)).encode() + b"\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S) as line:
            line.settimeout(ANSWER_S)
            line.sendall(head.replace(b"%d", str(self.port).encode()) + body)
            got = b""
            try:
                while chunk := line.recv(65536):
                    got += chunk
            except TimeoutError:
                raise Failed(f"I9: a call has no answer within {ANSWER_S:g} s") from None
        if not got.startswith(b"HTTP/1.1 "):
            raise Failed(f"I9: a call was answered with {got[:300]!r}")
        return got


def judge(subject: Subject, server: MadeUpServer, dog: Watchdog, sent: object, example: Callable[[], bytes]) -> None:
    """Run an example, and check everything that must hold after it."""
    try:
        _judge(subject, server, dog, example)
    except Failed as failed:
        print(f"BROKEN: {failed}\n  after {sent!r}"[:3000], flush=True)
        raise


def _judge(subject: Subject, server: MadeUpServer, dog: Watchdog, example: Callable[[], bytes]) -> None:
    times = []
    for _ in range(4):
        dog.forget()
        got = example()
        if b"INTERNAL_ERROR" in got or subject.faults.seen:
            told = "\n".join(subject.faults.seen) or got[:500].decode("latin-1")
            subject.faults.seen.clear()
            raise Failed(f"a fault of the hub's own: {told}")
        times.append((dog.dearest_s * 1000, dog.what))
        if times[-1][0] <= MAX_MS:
            break
    else:
        # Seen four times, so it is not the machine.
        took, what = min(times)
        raise Failed(f"{took:.1f} ms in {what}")
    server.answer = None
    if b'"fine"' not in subject.call():
        raise Failed("a neighbour is not served")


def fuzz(seconds: float, number: int) -> int:
    counts = {"requests": 0, "answers": 0}
    with tempfile.TemporaryDirectory(prefix="ilz") as folder, watching() as dog:
        server = MadeUpServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Subject(Path(folder), f"http://127.0.0.1:{server.server_port}/mcp").running() as subject:
            pid = [os.getpid()]
            began, warm = time.monotonic(), 0.0

            def rest() -> None:
                nonlocal warm
                gc.collect()
                if not warm and time.monotonic() - began > min(WARM_S, seconds / 4):
                    warm = memory_mb(pid)

            common = settings(
                max_examples=200,
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            round_ = 0
            while time.monotonic() - began < seconds:
                round_ += 1

                @seed(number + round_)
                @common
                @given(requests())
                def heads(text: bytes) -> None:
                    counts["requests"] += 1
                    judge(subject, server, dog, text, lambda: subject.send(text))

                @seed(number + round_)
                @common
                @given(ANSWERS)
                def answers(answer: Answer) -> None:
                    counts["answers"] += 1

                    def example() -> bytes:
                        server.answer = answer
                        return subject.call()

                    judge(subject, server, dog, answer, example)

                heads()
                answers()
                rest()
            grown = memory_mb(pid) - warm
    print(
        f"{counts['requests']} connections and {counts['answers']} answers in {time.monotonic() - began:.0f} s; ",
        end="",
    )
    print(f"memory {grown:+.0f} MB since the first minute; seed {number}")
    if grown > GROWTH_MB:
        print(f"BROKEN: I8: memory grew by more than {GROWTH_MB:g} MB")
        return 1
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    # The hub's thread uses `random` while examples are made here, and their grammar is long.
    warnings.simplefilter("ignore", HypothesisWarning)
    sys.exit(fuzz(options.seconds, options.seed))


if __name__ == "__main__":
    main()
