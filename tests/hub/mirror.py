"""An HTTP server of one era that answers each method with exactly what a test gave it, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias

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


class Mirror:
    """`answers` holds, by method, a result; `acts` what is done on the stream of a request, which gives its result."""

    def __init__(self, revision: str = "2026-07-28") -> None:
        self.revision = revision
        self.modern = revision == "2026-07-28"
        self.answers: dict[str, Any] = {}
        self.acts: dict[str, Act] = {}
        self.heard: list[Any] = []
        self.headers: dict[str, str] = {}
        """Of the last request."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if not first.startswith("POST"):
            writer.write(b"HTTP/1.1 405 Not Here\r\ncontent-length: 0\r\n\r\n")
            return
        message = json.loads(body)
        self.heard.append(message)
        self.headers = headers
        if "id" not in message or "method" not in message:
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        envelope = {"jsonrpc": "2.0", "id": message["id"]}
        method = message["method"]
        if method in self.acts:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            done = await self.acts[method](message, lambda said: _event(writer, said))
            _event(writer, {**envelope, "result": done})
            writer.write(b"0\r\n\r\n")
            return
        answer = json.dumps({**envelope, **self._answer(method)}, ensure_ascii=False).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
        writer.write(head.encode() + answer)


def _event(writer: asyncio.StreamWriter, message: Any) -> None:
    event = f"data: {json.dumps(message)}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
