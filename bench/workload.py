"""What is asked and what must come back: the tools, their schema of seven properties, requests and expected answers.

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


class Shot(NamedTuple):
    """A request but for its number, and the text its answer must hold."""

    request: bytes
    answer: str

    def numbered(self, number: int) -> bytes:
        return self.request % (number, number)

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
    chosen: list[tuple[int, int]], era: Era, view: View, tools: int, port: int, session: str = "", key: str = ""
) -> list[Shot]:
    """HTTP requests for these tools."""
    return [_shot(server, tool, era, view, tools, port, session, key) for server, tool in chosen]


def lines(chosen: list[tuple[int, int]], era: Era) -> list[Shot]:
    """The same for the standard streams of a hub's client."""
    found = []
    for server, tool in chosen:
        body = call_body(f"s{server}__t{tool}", era)
        found.append(Shot(body + b"\n", f"{server}/t{tool}/%d"))
    return found


def call_body(name: str, era: Era) -> bytes:
    """A `tools/call` with `%d` for its id and for the number it asks about."""
    arguments = (
        b'{"n":%d,"query":"open invoices of the last quarter","limit":50,"exact":false,'
        b'"tags":["finance","eu"],"since":"2026-07-01","weight":0.5}'
    )
    meta = b',"_meta":%b' % modern_meta() if era == "modern" else b""
    call = b'{"jsonrpc":"2.0","id":%%d,"method":"tools/call","params":{"name":"%b","arguments":%b%b}}'
    return call % (name.encode(), arguments, meta)


def modern_meta() -> bytes:
    """What every request of the stateless era says about its sender."""
    prefix = "io.modelcontextprotocol/"
    meta = {"protocolVersion": MODERN, "clientInfo": {"name": "bench", "version": "1"}, "clientCapabilities": {}}
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


def _shot(server: int, tool: int, era: Era, view: View, tools: int, port: int, session: str, key: str) -> Shot:
    name = f"s{server}__t{tool}" if view == "hub" else f"t{tool}"
    path = upstream_path(era, tools, server) if view == "direct" else "/mcp"
    body = call_body(name, era)
    length = len(body % (FIRST_ID, FIRST_ID))
    headers = context_headers(era, "tools/call", name, session) + credential(key)
    request = post(path, port, body, headers, length)
    return Shot(request, f"{0 if view == 'single' else server}/t{tool}/%d")
