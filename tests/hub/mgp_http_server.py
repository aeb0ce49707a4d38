"""The server of `governed_server` over HTTP, in the test's own process."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .mgp_server import MgpServer
from .web_server import Posted, WebServer


class MgpHttpServer(WebServer):
    """Answers as its file says."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._governed = MgpServer(path)
        self._turned: Counter[str] = Counter()

    def _turned_away(self, message: dict[str, Any]) -> bytes | None:
        planned = json.loads(self._governed.path.read_text()).get("turned", {})
        name = (message.get("params") or {}).get("name") or message.get("method", "")
        if self._turned[name] >= len(planned.get(name, [])):
            return None
        said = planned[name][self._turned[name]]
        self._turned[name] += 1
        with self._governed.log.open("a") as log:
            log.write(json.dumps({"turned": name, "at": time.monotonic()}) + "\n")
        body = json.dumps(said["body"]).encode() if "body" in said else b""
        lines = "".join(f"{field}: {value}\r\n" for field, value in said.get("headers", {}).items()).encode()
        return b"HTTP/1.1 %d No\r\n%bcontent-length: %d\r\n\r\n%b" % (said["status"], lines, len(body), body)

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        message = posted.message
        session = str(json.loads(self._governed.path.read_text()).get("session", "governed"))
        if posted.headers.get("mcp-session-id", session) != session:
            writer.write(b"HTTP/1.1 404 No Session\r\ncontent-length: 0\r\n\r\n")
            return True
        if (away := self._turned_away(message)) is not None:
            writer.write(away)
            return True
        reply = self._governed.answer(message)
        if reply is None and "id" in message and "method" in message:
            await asyncio.Event().wait()
        if reply is None:
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return True
        opens = message["method"] == "initialize" and "result" in reply
        given = b"mcp-session-id: %b\r\n" % session.encode() if opens else b""
        said = json.dumps(reply).encode()
        status = b"200 OK" if "result" in reply or message["method"] == "tools/call" else b"404 Not Found"
        writer.write(
            b"HTTP/1.1 %b\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (status, given, len(said), said)
        )
        await writer.drain()
        return True
