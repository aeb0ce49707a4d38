"""A hostile server behind a hub: it answers with the very bytes that a test chooses, over HTTP or standard streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hub.raw_server import COMPLETE, RawHttpServer, RawStdioServer, RawToolServer
from hub.running_hub import RunningHub, running_hub
from interlock.config.settings import ServerSettings

Era = Literal["modern", "legacy"]
OPENING = ("initialize", "server/discover", "ping")


class Hostile(RawToolServer):
    """Offers a tool, a prompt and a resource. `answers` holds, by method, the whole answer; `results` the result."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__(modern=modern)
        self.results: dict[str, bytes] = {}
        self.answers: dict[str, bytes] = {}
        self.asked: list[dict[str, Any]] = []
        """Requests that came, but for those that open a conversation."""

    def reply(self, message: dict[str, Any]) -> bytes | None:
        return None

    def answer(self, message: dict[str, Any]) -> bytes:
        method, id_ = message["method"], str(message["id"]).encode()
        if method not in OPENING:
            self.asked.append(message)
        if method in self.answers:
            return self.answers[method].replace(b"%ID%", id_)
        if method in self.results:
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, self.results[method])
        result = _OFFERS.get(method)
        if result is None:
            return super().answer(message)
        whole = {**COMPLETE, **result} if self.modern else result
        if (method == "initialize" and self.modern) or (method == "server/discover" and not self.modern):
            return super().answer(message)
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": whole}, separators=(",", ":")).encode()


class HostileWeb(Hostile, RawHttpServer):
    """Over HTTP."""


class HostileProgram(Hostile, RawStdioServer):
    """Over standard streams."""


_CAPABILITIES = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
_OFFERS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": _CAPABILITIES,
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": _CAPABILITIES},
    "tools/list": {"tools": [{"name": "ok", "inputSchema": {"type": "object"}}]},
    "prompts/list": {"prompts": [{"name": "ask"}]},
    "resources/list": {"resources": [{"uri": "a://b", "name": "b"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


class Way(NamedTuple):
    """How the server is reached, and which era it and the client speak."""

    server: Era
    client: Era
    streams: bool

    def __str__(self) -> str:
        return f"{self.client} client, {self.server} server, {'streams' if self.streams else 'HTTP'}"


WAYS = [
    Way(server, client, streams)
    for server in ("modern", "legacy")
    for client in ("modern", "legacy")
    for streams in (False, True)
]


@asynccontextmanager
async def behind_a_hub(tmp_path: Path, way: Way) -> AsyncIterator[tuple[RunningHub, HostileWeb | HostileProgram]]:
    """A hub before a hostile server."""
    modern = way.server == "modern"
    async with (HostileProgram if way.streams else HostileWeb)(modern=modern) as server:
        place: dict[str, Any] = {"command": server.command} if isinstance(server, HostileProgram) else {}
        if isinstance(server, HostileWeb):
            place = {"url": server.url}
        async with running_hub(tmp_path, {"bad": ServerSettings(era=way.server, **place)}) as running:
            yield running, server


def disguised(value: object, *, texts: bool = False) -> bytes:
    """The same JSON with every member name written in escapes; with `texts`, every text too."""
    if isinstance(value, dict):
        members = (b"%b:%b" % (_escaped(name), disguised(item, texts=texts)) for name, item in value.items())
        return b"{%b}" % b",".join(members)
    if isinstance(value, list):
        return b"[%b]" % b",".join(disguised(item, texts=texts) for item in value)
    if isinstance(value, str) and texts:
        return _escaped(value)
    return json.dumps(value).encode()


def _escaped(text: str) -> bytes:
    units = text.encode("utf-16-be")
    return b'"%b"' % b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
