"""An HTTP server that speaks its era properly, save for one tool: what that answers is up to the test."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from .web_server import Posted, WebServer


class RawWeb(WebServer):
    """Counts who comes. `replies` holds, by tool, the bytes that answer its calls; `drip` then follows for ever."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__()
        self.modern = modern
        """Whether it speaks the stateless era, and else the handshake era."""
        self.schema: dict[str, Any] = SCHEMA if modern else {"type": "object"}
        """Of its tools."""
        self.called = 0
        """How many calls of tools came."""
        self.lost = 0
        """How many connections were closed on it while it was silent about a call."""
        self.replies: dict[str, bytes] = {}
        self.drip = b""
        self.session = ""
        """Which session it opens, if any."""
        self.told: list[Any] = []
        """Notifications that it took."""
        self.refuses = 0
        """So many of them it does not take."""

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        message = posted.message
        name = message.get("params", {}).get("name") if message["method"] == "tools/call" else None
        self.called += name is not None
        if name in self.replies and not self.replies[name]:
            await reader.read(1)
            self.lost += 1
            return False
        if name in self.replies:
            writer.write(self.replies[name].replace(b"%ID%", str(message["id"]).encode()))
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
        answer = self._answer(message)
        named = f"mcp-session-id: {self.session}\r\n" if self.session and message["method"] == "initialize" else ""
        head = f"content-type: application/json\r\ncontent-length: {len(answer)}\r\n{named}\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + answer)
        await writer.drain()
        return True

    def _answer(self, message: dict[str, Any]) -> bytes:
        result = _result(message, self.schema)
        result = {**COMPLETE, **result} if self.modern else result
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if message["method"] in (("initialize", "ping") if self.modern else ("server/discover",)):
            del answer["result"]
            answer["error"] = {"code": -32601, "message": "no such method"}
        return json.dumps(answer, separators=(",", ":")).encode()


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
