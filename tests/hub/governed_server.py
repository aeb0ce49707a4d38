"""A server that speaks MGP as a file says, in either era, over standard streams or HTTP, and writes down what it hears.

The file is read at every message:

    era       "modern" or "legacy"
    home      where it looks for MGP and answers: "mgp", "experimental" or "extensions"; `mgp` is what it says there
    tools     its tools
    knows     the methods of MGP that it knows
    answers   by tool, what its calls are answered with, one after the other: {"error": …} or {"result": …}
    claims    what it answers to the methods of MGP
    silent    methods that it does not answer
    session   the only session that it knows (over HTTP); another name, and it has lost those before
    turned    by tool or method, how it is turned away before it is answered (over HTTP), one after the other:
              {"status": …, "headers": {…}, "body": …}
    steps     by tool, how many half seconds it works and tells of it (over standard streams)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
KEY = "dev.cloto/mgp"
KNOWN = ["mgp/permission/request", "mgp/permission/response"]
_SESSION = re.compile(rb"mcp-session-id: *(\S+)", re.IGNORECASE)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Governed:
    """Answers messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path.with_suffix(".log")
        self.calls: Counter[str] = Counter()

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a message; None for a notification, and for what it stays silent about."""
        with self.log.open("a") as log:
            log.write(json.dumps(message) + "\n")
        script = json.loads(self.path.read_text())
        if "id" not in message or "method" not in message or message["method"] in script.get("silent", []):
            return None
        said = self._result(message["method"], message.get("params") or {}, script)
        if said is None:
            said = {"error": {"code": -32601, "message": "no such method"}}
        elif "error" not in said and "result" not in said:
            said = {"result": said}
        return {"jsonrpc": "2.0", "id": message["id"], **said}

    def _result(self, method: str, params: dict[str, Any], script: dict[str, Any]) -> dict[str, Any] | None:
        modern = script.get("era") == "modern"
        done = {"resultType": "complete"} if modern else {}
        match method:
            case "initialize" if not modern:
                info = {"name": "governed", "version": "1"}
                offered = capabilities(script, params["capabilities"])
                return {"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": info}
            case "server/discover" if modern:
                offered = capabilities(script, params["_meta"][CAPABILITIES])
                return {**done, "supportedVersions": ["2026-07-28"], "capabilities": offered}
            case "tools/list":
                return {**done, "tools": script.get("tools", []), **({"ttlMs": 0} if modern else {})}
            case "tools/call":
                return self._call(params, script, done)
            case "ping":
                return done
        return {**done, **script.get("claims", {})} if method in script.get("knows", KNOWN) else None

    def _call(self, params: dict[str, Any], script: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
        name = params["name"]
        planned = script.get("answers", {}).get(name)
        if planned:
            number = min(self.calls[name], len(planned) - 1)
            self.calls[name] += 1
            if planned[number] != "ok":
                answer: dict[str, Any] = planned[number]
                return answer
        text = f"{name} ran {json.dumps(params.get('arguments') or {})}"
        return {**done, "content": [{"type": "text", "text": text}]}


def capabilities(script: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What it offers; of MGP only where it was asked, and there."""
    offered: dict[str, Any] = {"tools": {"listChanged": True}}
    said = script.get("mgp")
    match script.get("home", "mgp"):
        case "mgp" if said and "mgp" in asked:
            offered["mgp"] = said
        case "experimental" if said and "mgp" in asked.get("experimental", {}):
            offered["experimental"] = {"mgp": said}
        case "extensions" if said and KEY in asked.get("extensions", {}):
            offered["extensions"] = {KEY: said}
    return offered


class GovernedWeb:
    """The same over HTTP, in the test's own process."""

    def __init__(self, path: Path) -> None:
        self._governed = Governed(path)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turned: Counter[str] = Counter()
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        if not head.startswith(b"POST"):
            writer.write(b"HTTP/1.1 405 Not Here\r\ncontent-length: 0\r\n\r\n")
            return
        message = json.loads(body)
        session = str(json.loads(self._governed.path.read_text()).get("session", "governed")).encode()
        said_session = _SESSION.search(head)
        if said_session is not None and said_session[1] != session:
            writer.write(b"HTTP/1.1 404 No Session\r\ncontent-length: 0\r\n\r\n")
            return
        if (away := self._turned_away(message)) is not None:
            writer.write(away)
            return
        reply = self._governed.answer(message)
        if reply is None and "id" in message and "method" in message:
            await asyncio.Event().wait()
        if reply is None:
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        opens = message["method"] == "initialize" and "result" in reply
        given = b"mcp-session-id: %b\r\n" % session if opens else b""
        said = json.dumps(reply).encode()
        status = b"200 OK" if "result" in reply or message["method"] == "tools/call" else b"404 Not Found"
        writer.write(
            b"HTTP/1.1 %b\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (status, given, len(said), said)
        )
        await writer.drain()


def work(path: Path, params: dict[str, Any]) -> None:
    """Take a while over a call, and tell how far it is to whoever wants to know."""
    token = (params.get("_meta") or {}).get("progressToken")
    for step in range(json.loads(path.read_text()).get("steps", {}).get(params.get("name"), 0)):
        time.sleep(0.5)
        if token is not None:
            said = {"progressToken": token, "progress": step + 1}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}), flush=True)


def main(path: Path) -> None:
    """Answer line by line. A call of `changed` also tells that the lists changed."""
    governed = Governed(path)
    for line in sys.stdin:
        message = json.loads(line)
        work(path, message.get("params") or {})
        reply = governed.answer(message)
        if reply is not None:
            print(json.dumps(reply), flush=True)
        if (message.get("params") or {}).get("name") == "changed":
            print('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
