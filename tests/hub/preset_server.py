"""An HTTP server of one era that answers each method with exactly what a test gave it, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from .web_server import Posted, WebServer

Say: TypeAlias = Callable[[Any], None]
Act: TypeAlias = Callable[[Any, Say], Awaitable[Any]]

OFFERED = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
CACHED = (*LISTS, "server/discover")


class PresetServer(WebServer):
    """`answers` holds, by method, a result; `acts` what is done on the stream of a request, which gives its result."""

    def __init__(self, revision: str = "2026-07-28") -> None:
        super().__init__()
        self.revision = revision
        self.modern = revision == "2026-07-28"
        self.answers: dict[str, Any] = {}
        self.acts: dict[str, Act] = {}
        self.heard: list[Any] = []
        self.headers: dict[str, str] = {}
        """Of the last request."""

    def _result(self, method: str) -> Mapping[str, Any]:
        if method == "initialize":
            info = {"name": "mirror", "version": "1"}
            return {"protocolVersion": self.revision, "capabilities": OFFERED, "serverInfo": info}
        if method == "server/discover":
            return {"supportedVersions": [self.revision], "capabilities": OFFERED}
        return self.answers.get(method) or {LISTS[method]: []} if method in LISTS else self.answers.get(method, {})

    def _answer(self, method: str) -> Any:
        if method == ("initialize" if self.modern else "server/discover"):
            return {"error": {"code": -32601, "message": f"no such method: {method}"}}
        result = self._result(method)
        if self.modern and method in CACHED:
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        return {"result": {"resultType": "complete", **result} if self.modern else result}

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        message = posted.message
        self.heard.append(message)
        self.headers = posted.headers
        if "id" not in message or "method" not in message:
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return True
        envelope = {"jsonrpc": "2.0", "id": message["id"]}
        method = message["method"]
        if method in self.acts:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            done = await self.acts[method](message, lambda said: _event(writer, said))
            _event(writer, {**envelope, "result": done})
            writer.write(b"0\r\n\r\n")
            return True
        answer = json.dumps({**envelope, **self._answer(method)}, ensure_ascii=False).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
        writer.write(head.encode() + answer)
        return True


def _event(writer: asyncio.StreamWriter, message: Any) -> None:
    event = f"data: {json.dumps(message)}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
