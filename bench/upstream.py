"""The servers behind everything that is measured: as lean as can be, in one process, over HTTP or standard streams.

Over HTTP the path says which server is meant (`/modern/100/7/mcp`: era, number of tools, index). Every hundredth call
is answered as an event stream.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import lru_cache
from typing import Any

import msgspec

from process import pin
from workload import LEGACY, MODERN, Era, definition

SSE_EVERY = 100
_INFO = {"name": "bench", "version": "1"}


class Arguments(msgspec.Struct):
    n: int


class Params(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: Arguments | None = None
    protocolVersion: str = ""


class Message(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: Params = Params()


decode = msgspec.json.Decoder(Message).decode


def answer(message: Message, era: Era, tools: int, server: int) -> bytes:
    """One JSON-RPC answer."""
    id_ = b"%d" % message.id if type(message.id) is int else msgspec.json.encode(message.id)
    if message.method == "tools/call" and message.params.arguments is not None:
        kind = b'"resultType":"complete",' if era == "modern" else b""
        text = b"%d/%b/%d" % (server, message.params.name.encode(), message.params.arguments.n)
        result = b'{%b"content":[{"type":"text","text":"%b"}]}' % (kind, text)
    elif message.method == "tools/list":
        result = tool_list(era, tools)
    elif message.method == "initialize":
        result = greeting(message.params.protocolVersion or LEGACY)
    elif message.method == "server/discover" and era == "modern":
        result = discovery()
    elif message.method == "ping":
        result = b"{}"
    else:
        return b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"Method not found"}}' % id_
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result)


@lru_cache
def tool_list(era: Era, tools: int) -> bytes:
    listed: dict[str, object] = {"tools": [definition(f"t{tool}") for tool in range(tools)]}
    if era == "modern":
        listed |= {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}
    return msgspec.json.encode(listed)


@lru_cache
def greeting(version: str) -> bytes:
    known = version if version.startswith(("2024", "2025")) else LEGACY
    return msgspec.json.encode({"protocolVersion": known, "capabilities": {"tools": {}}, "serverInfo": _INFO})


@lru_cache
def discovery() -> bytes:
    about: dict[str, Any] = {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}}
    about |= {"ttlMs": 3_600_000, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": _INFO}}
    return msgspec.json.encode(about)


@lru_cache
def place(path: bytes) -> tuple[Era, int, int]:
    _, era, tools, server, _ = path.decode().split("/")
    return ("modern" if era == "modern" else "legacy"), int(tools), int(server)


def serve_http(port: int) -> None:
    """Serve until killed. Prints the port it listens on."""
    import httptools
    import uvloop

    class Connection(asyncio.Protocol):
        """One connection; a request is answered as soon as it is whole."""

        calls = 0

        def __init__(self) -> None:
            self.parser = httptools.HttpRequestParser(self)
            self.path = b""
            self.body = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            self.write = transport.write  # type: ignore[attr-defined]

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)

        def on_url(self, url: bytes) -> None:
            self.path = url

        def on_body(self, body: bytes) -> None:
            self.body = self.body + body if self.body else body

        def on_message_complete(self) -> None:
            body, self.body = self.body, b""
            if not body:
                get = self.parser.get_method() == b"GET"
                self.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % (b"405 No" if get else b"204 Done"))
                return
            message = decode(body)
            if message.id is None:
                self.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                return
            answered = answer(message, *place(self.path))
            Connection.calls += 1
            if message.method == "tools/call" and Connection.calls % SSE_EVERY == 0:
                event = b"data: %b\n\n" % answered
                head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                self.write(b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(event), event))
                return
            session = b"mcp-session-id: bench-session\r\n" if message.method == "initialize" else b""
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            self.write(head % (session, len(answered), answered))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Connection, "127.0.0.1", port, backlog=4096)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    uvloop.run(run())


def serve_stdio(era: Era, tools: int, server: int) -> None:
    """Answer lines until the input ends."""
    held = b""
    while chunk := os.read(0, 1 << 20):
        *complete, held = (held + chunk).split(b"\n")
        answers = []
        for line in complete:
            message = decode(line)
            if message.id is not None:
                answers.append(answer(message, era, tools, server) + b"\n")
        out = memoryview(b"".join(answers))
        while out:
            out = out[os.write(1, out) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", type=int)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--era", choices=("modern", "legacy"), default="legacy")
    parser.add_argument("--tools", type=int, default=100)
    parser.add_argument("--server", type=int, default=0)
    options = parser.parse_args()
    pin(options.core)
    if options.stdio:
        serve_stdio(options.era, options.tools, options.server)
    else:
        serve_http(options.port)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
