"""Servers that speak their era properly, save for what a test chooses: that is answered as it stands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any, Self

from .web_server import Posted, WebServer


class RawToolServer:
    """Two tools. `replies` holds, by tool, the bytes that answer its calls instead; empty, it is silent about them."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__()
        self.modern = modern
        """Whether it speaks the stateless era, and else the handshake era."""
        self.schema: dict[str, Any] = SCHEMA if modern else {"type": "object"}
        """Of its tools."""
        self.called = 0
        """How many calls of tools came."""
        self.lost = 0
        """How many of them were given up while it was silent about them."""
        self.replies: dict[str, bytes] = {}
        self.told: list[Any] = []
        """Notifications that it took."""

    def reply(self, message: dict[str, Any]) -> bytes | None:
        """The answer that was chosen for this request."""
        name = message.get("params", {}).get("name") if message["method"] == "tools/call" else None
        self.called += name is not None
        chosen = self.replies.get(name) if name is not None else None
        if chosen is None:
            return None
        chosen = chosen.replace(b"%ID%", str(message["id"]).encode())
        return chosen.replace(b"%LENGTH%", b"%d" % len(chosen.partition(b"\r\n\r\n")[2]))

    def answer(self, message: dict[str, Any]) -> bytes:
        """The answer of a proper server."""
        result = _result(message, self.schema)
        result = {**COMPLETE, **result} if self.modern else result
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if message["method"] in (("initialize", "ping") if self.modern else ("server/discover",)):
            del answer["result"]
            answer["error"] = {"code": -32601, "message": "no such method"}
        return json.dumps(answer, separators=(",", ":")).encode()


class RawHttpServer(RawToolServer, WebServer):
    """Over HTTP. Counts who comes; `drip` follows for ever on what was chosen to answer."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__(modern=modern)
        self.drip = b""
        self.session = ""
        """Which session it opens, if any."""
        self.refuses = 0
        """So many of the notifications it does not take."""

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        message = posted.message
        chosen = self.reply(message)
        if chosen is not None and not chosen:
            await reader.read(1)
            self.lost += 1
            return False
        if chosen is not None:
            writer.write(chosen)
            await writer.drain()
            while self.drip:
                writer.write(self.drip)
                await writer.drain()
                await asyncio.sleep(0.02)
            return False
        if "id" not in message and self.refuses and message["method"] != "notifications/initialized":
            self.refuses -= 1
            writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
            return True
        if "id" not in message:
            self.told.append(message)
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return True
        answer = self.answer(message)
        named = f"mcp-session-id: {self.session}\r\n" if self.session and message["method"] == "initialize" else ""
        head = f"content-type: application/json\r\ncontent-length: {len(answer)}\r\n{named}\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + answer)
        await writer.drain()
        return True


class RawStdioServer(RawToolServer):
    """A program over standard streams that relays every message to the test's own process. A message about a call that
    the server never answered counts as lost."""

    async def __aenter__(self) -> Self:
        self._work: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=16 * 1024 * 1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.end()
        await asyncio.gather(*self._work, return_exceptions=True)

    def end(self) -> None:
        """Have every program of it end."""
        for task in self._work:
            task.cancel()

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started."""
        return (sys.executable, "-I", "-S", "-c", _PASSING_ON, str(self._server.sockets[0].getsockname()[1]))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work.add(task)
        try:
            with contextlib.suppress(OSError):
                while line := await reader.readline():
                    writer.write(self._said_to(json.loads(line)))
        finally:
            self._work.discard(task)
            writer.close()

    def _said_to(self, message: dict[str, Any]) -> bytes:
        chosen = self.reply(message) if "method" in message else b""
        if chosen is not None:
            return chosen
        if "id" in message:
            return self.answer(message) + b"\n"
        self.told.append(message)
        self.lost += message["method"] == "notifications/cancelled"
        return b""


_PASSING_ON = """
import os, socket, sys, threading
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def back():
    while data := peer.recv(65536):
        while data:
            data = data[os.write(1, data):]
    os._exit(0)
threading.Thread(target=back).start()
while data := os.read(0, 65536):
    peer.sendall(data)
peer.shutdown(socket.SHUT_WR)
"""


COMPLETE = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": ["string", "number", "array"]}, "n": {"type": "integer"}},
    "additionalProperties": False,
}


def _result(message: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": schema} for name in ("ok", "strange")]}
        case _:
            return {"content": [{"type": "text", "text": "fine"}]}
