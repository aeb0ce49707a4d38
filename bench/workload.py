"""Requests and their expected answers: the tools, their schema of seven properties, requests and expected answers.

Shared by the upstream and the load, so that every answer can be checked against what was asked.
"""

from __future__ import annotations

import json
import random
from typing import Literal, NamedTuple

Era = Literal["modern", "legacy"]
View = Literal["direct", "hub", "single"]
"""How a target shows the servers: each under its own path, all at `/mcp` under prefixed names, or one alone."""

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
FIRST_ID = 10_000_000
"""Ids have eight digits throughout, so that a request's length is known before its id is."""

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0},
        "query": {"type": "string", "minLength": 1, "maxLength": 200},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 16},
        "since": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "weight": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["n", "query", "limit"],
    "additionalProperties": False,
}


ARGUMENTS = (
    b'{"n":%d,"query":"open invoices of the last quarter","limit":50,"exact":false,'
    b'"tags":["finance","eu"],"since":"2026-07-01","weight":0.5}'
)


class Shape(NamedTuple):
    """How a client writes its calls. Each `%d` stands for the call's number, so that what varies does."""

    name: str
    era: Era
    meta: bytes = b""
    """The members of `_meta`, beside what its era wants; empty for none at all."""
    capabilities: bytes = b"{}"
    """The capabilities that it declares."""
    version: str = LEGACY
    """The revision that it opens a session with, in the handshake era."""
    method_first: bool = False
    """Whether `method` and `params` stand before `jsonrpc` and `id`, as JavaScript and Python clients write them."""
    meta_first: bool = False
    """Whether `_meta` stands before the name."""
    head: tuple[str, ...] = ("host", "accept", "type", "context", "length")
    """Its headers, in their order; what is none of these stands there as it is."""

    def call(self, name: str) -> bytes:
        """A `tools/call` with `%d` for its id and for whatever else is new with each call."""
        meta = self.meta
        if self.era == "modern":
            said = modern_meta(self.capabilities)[1:-1]
            meta = said + (b"," + meta if meta else b"")
        members = [b'"name":"%b"' % name.encode(), b'"arguments":%b' % ARGUMENTS]
        if meta or self.meta_first:
            members.insert(0 if self.meta_first else 2, b'"_meta":{%b}' % meta)
        params = b'"params":{%b}' % b",".join(members)
        if self.method_first:
            return b'{"method":"tools/call",%b,"jsonrpc":"2.0","id":%%d}' % params
        return b'{"jsonrpc":"2.0","id":%%d,"method":"tools/call",%b}' % params

    def post(self, path: str, port: int, length: int, context: str) -> bytes:
        """The head of a POST of so many bytes."""
        said = {
            "host": f"Host: 127.0.0.1:{port}\r\n",
            "accept": "Accept: application/json, text/event-stream\r\n",
            "type": "Content-Type: application/json\r\n",
            "context": context,
            "length": f"Content-Length: {length}\r\n",
        }
        lines = "".join(said.get(part, f"{part}\r\n") for part in self.head)
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


_TURN = (
    b'"callId":"call_%d","x-turn-metadata":{"session_id":"01a1e119-5f6f-7253-b4f3-d69dabab2b50","model":"scripted",'
    b'"turn_id":"01a1e119-5f97-72a2-b927-%d","turn_started_at_unix_ms":17947%d,"thread_source":"user",'
    b'"sandbox":"none","auto_review_enabled":false},"threadId":"01a1e119-5f6f-7253-b4f3-d69dabab2b50",'
    b'"itemId":"fc_resp_%d","progressToken":%d'
)
_PYTHON = ("host", "Accept-Encoding: gzip, deflate, zstd", "Connection: keep-alive", "User-Agent: python/3.11")
_NODE = ("host", "connection: keep-alive")
BARE: dict[Era, Shape] = {"modern": Shape("bare", "modern"), "legacy": Shape("bare", "legacy")}
"""Calls that say no more than they must."""
MIX: dict[Era, tuple[Shape, ...]] = {
    "modern": (
        Shape("a stateless library", "modern", head=(*_PYTHON, "accept", "type", "context", "length")),
        Shape("a stateless agent", "modern", b'"progressToken":%d,"agent/toolUseId":"tool_%d"', b'{"elicitation":{}}'),
        Shape(
            "a traced agent",
            "modern",
            b'"traceparent":"00-0af7651916cd43dd8448eb21%d-b7ad6b71%d-01","progressToken":"token-%d"',
            b'{"elicitation":{},"sampling":{}}',
        ),
    ),
    "legacy": (
        Shape(
            "a coding agent",
            "legacy",
            b'"agent/toolUseId":"toolu_s0_%d","progressToken":%d',
            b'{"roots":{},"elicitation":{}}',
            method_first=True,
            head=("accept", "Accept-Encoding: identity", "type", "context", "Connection: keep-alive", "host", "length"),
        ),
        Shape(
            "an agent that tells much of its turn",
            "legacy",
            _TURN,
            b'{"elicitation":{"form":{},"url":{}}}',
            version="2025-06-18",
            meta_first=True,
            head=("user-agent: agent/0.1", "context", "accept", "type", "host", "length"),
        ),
        Shape(
            "an agent with tokens in words",
            "legacy",
            b'"progressToken":"4f8918f8-8b37-49c1-8e16-%d"',
            b'{"roots":{"listChanged":true}}',
            version="2025-06-18",
            method_first=True,
            head=(*_NODE, "context", "type", "accept", "accept-language: *", "user-agent: node", "length"),
        ),
        Shape("a library with progress", "legacy", b'"progressToken":%d', method_first=True,
              head=(*_PYTHON, "accept", "type", "context", "length")),
        Shape("a library", "legacy", method_first=True, head=(*_PYTHON, "accept", "type", "context", "length")),
    ),
}  # fmt: skip
"""Calls as coding agents and agent libraries write them."""


class Shot(NamedTuple):
    """A request but for its number, and the text its answer must hold."""

    request: bytes
    answer: str

    def numbered(self, number: int) -> bytes:
        return self.request % ((number,) * self.request.count(b"%d"))

    def text(self, number: int) -> str:
        return self.answer % number


def definition(name: str) -> dict[str, object]:
    """A tool as its server lists it."""
    about = f"Looks up entries that match a query in collection {name}, newest first, at most `limit` of them."
    return {"name": name, "description": about, "inputSchema": SCHEMA}


def upstream_path(era: Era, tools: int, server: int) -> str:
    """Where the test upstream serves one server: the path says what it is."""
    return f"/{era}/{tools}/{server}/mcp"


def picks(servers: int, tools: int, count: int) -> list[tuple[int, int]]:
    """Random tools among all of them, the same in every run."""
    rng = random.Random(servers * 1_000_003 + tools)
    return [(rng.randrange(servers), rng.randrange(tools)) for _ in range(count)]


def shots(
    chosen: list[tuple[int, int]],
    shape: Shape,
    view: View,
    tools: int,
    port: int,
    session: str = "",
    key: str = "",
) -> list[Shot]:
    """HTTP requests for these tools, as one client writes them."""
    return [_shot(server, tool, shape, view, tools, port, session, key) for server, tool in chosen]


def lines(chosen: list[tuple[int, int]], shape: Shape) -> list[Shot]:
    """The same for the standard streams of a hub's client."""
    return [Shot(shape.call(f"s{server}__t{tool}") + b"\n", f"{server}/t{tool}/%d") for server, tool in chosen]


def call_body(name: str, era: Era) -> bytes:
    """A bare `tools/call` with `%d` for its id and for the number it asks about."""
    return BARE[era].call(name)


def modern_meta(capabilities: bytes = b"{}") -> bytes:
    """The members by which every request of the stateless era describes its sender."""
    prefix = "io.modelcontextprotocol/"
    info = {"name": "bench", "version": "1"}
    meta = {"protocolVersion": MODERN, "clientInfo": info, "clientCapabilities": json.loads(capabilities)}
    return json.dumps({prefix + key: value for key, value in meta.items()}, separators=(",", ":")).encode()


def post(path: str, port: int, body: bytes, more: str, length: int | None = None) -> bytes:
    """A whole POST."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Type: application/json\r\n{more}Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def context_headers(era: Era, method: str, name: str = "", session: str = "") -> str:
    """The headers of either era."""
    if era == "modern":
        named = f"Mcp-Name: {name}\r\n" if name else ""
        return f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{named}"
    return f"MCP-Protocol-Version: {LEGACY}\r\n" + (f"Mcp-Session-Id: {session}\r\n" if session else "")


def credential(key: str) -> str:
    """The header that says who asks, where that is asked for."""
    return f"Authorization: Bearer {key}\r\n" if key else ""


def _shot(server: int, tool: int, shape: Shape, view: View, tools: int, port: int, session: str, key: str) -> Shot:
    name = f"s{server}__t{tool}" if view == "hub" else f"t{tool}"
    path = upstream_path(shape.era, tools, server) if view == "direct" else "/mcp"
    body = Shot(shape.call(name), "")
    context = context_headers(shape.era, "tools/call", name, session) + credential(key)
    head = shape.post(path, port, len(body.numbered(FIRST_ID)), context)
    return Shot(head + body.request, f"{0 if view == 'single' else server}/t{tool}/%d")
