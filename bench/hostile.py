"""A hub on loopback with a server that sends what a row says, and a healthy one beside it. For `validators.py`.

Run as a program it is that server: the bytes are in the file it is given, sent instead of an answer to `tools/list` or
`tools/call`, as the second argument says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, cast

ANSWER_WITHIN_S = 8.0
NEIGHBOUR_WITHIN_S = 2.0
MAX_GROWTH = 64 << 20
TOOL_S = 2
MODERN = "2026-07-28"
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
FINE = {"content": [{"type": "text", "text": "still here"}]}


def is_contained(sent: bytes) -> bool:
    """Whether a call to the server that sends this comes to an end, and neither its neighbour nor the hub suffers."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "sent")
        path.write_bytes(sent)
        return asyncio.run(_watch(path, "tools/list" if b'"tools"' in sent else "tools/call"))


def is_contained_over_http(kind: str) -> bool:
    """The same for a server over HTTP that answers everything in one of the ways of `_HTTP_ANSWERS`."""
    _zeros()
    return asyncio.run(_serve_and_watch(kind))


async def _serve_and_watch(kind: str) -> bool:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65_536)
            for piece in _HTTP_ANSWERS[kind]():
                writer.write(piece)
                await writer.drain()
                if kind == "slow":
                    await asyncio.sleep(10)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with tempfile.TemporaryDirectory() as home:
        try:
            return await _watch(Path(home, "sent"), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        finally:
            server.close()


@cache
def _zeros() -> tuple[bytes, ...]:
    """A quarter of a gigabyte of nothing, packed; made once, before anybody waits for it."""
    packer = zlib.compressobj(wbits=31)
    packed = b"".join([packer.compress(bytes(1 << 20)) for _ in range(256)]) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
    return head, packed


_JSON = b'{"jsonrpc":"2.0","id":1,"result":{}}'
_HTTP_ANSWERS: dict[str, Callable[[], Iterable[bytes]]] = {
    "cookies": lambda: (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + b"set-cookie: a=b\r\n" * 10_000 + b"\r\n" + _JSON,
    ),
    "zeros": _zeros,
    "html": lambda: (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n" + _JSON,),
    "slow": lambda: (bytes((octet,)) for octet in b"HTTP/1.1 200 OK\r\n"),
}


async def _watch(path: Path, method: str) -> bool:
    from interlock.config.settings import Config, HubSettings, ServerSettings, TimeoutSettings
    from interlock.hub.app import HubApp
    from interlock.hub.authentication import is_mcp_path
    from interlock.transports.http.server.endpoint import McpEndpoint
    from interlock.transports.http.server.serve import start
    from interlock.web.app import make_app

    own = (sys.executable, __file__)
    bad = ServerSettings(url=method) if method.startswith("http") else ServerSettings(command=(*own, str(path), method))
    servers = {"bad": bad, "good": ServerSettings(command=(*own, "", ""))}
    config = Config(hub=HubSettings(timeouts=TimeoutSettings(start_s=5, discovery_s=2, tool_s=TOOL_S)), servers=servers)
    hub_app = HubApp(config, path.parent / "home")
    http = await start(McpEndpoint(hub_app.service, hub_app.limits), cast(Any, make_app(hub_app)), is_mcp=is_mcp_path)
    await hub_app.start()
    try:
        async with asyncio.timeout(15):
            while "result" not in await _call(http.port, "good__t"):
                await asyncio.sleep(0.05)
        before = _resident()
        begun = time.monotonic()
        answer = await _call(http.port, "bad__t")
        if time.monotonic() - begun > ANSWER_WITHIN_S or not ("error" in answer or "result" in answer):
            return False
        begun = time.monotonic()
        neighbour = await _call(http.port, "good__t")
        return (
            neighbour.get("result", {}).get("content") == FINE["content"]
            and time.monotonic() - begun < NEIGHBOUR_WITHIN_S
            and _resident() - before < MAX_GROWTH
        )
    finally:
        await http.stop(1)
        await hub_app.stop()


async def _call(port: int, tool: str) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}, "_meta": meta}}
    body = json.dumps(call).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\naccept: application/json, "
        f"text/event-stream\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + body)
        heard = await asyncio.wait_for(reader.read(), 2 * ANSWER_WITHIN_S)
    finally:
        writer.close()
    start, end = heard.find(b'{"'), heard.rfind(b"}")
    return cast(dict[str, Any], json.loads(heard[start : end + 1])) if start >= 0 else {}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def serve(path: str, instead_of: str) -> None:
    """A server over standard streams; one of its answers is what the file holds."""
    sent = Path(path).read_bytes() if path else b""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, own_id = message["method"], json.dumps(message["id"]).encode()
        if method == instead_of:
            sys.stdout.buffer.write(sent.replace(b'"id":1,', b'"id":' + own_id + b",") + b"\n")
            sys.stdout.buffer.flush()
            continue
        result: dict[str, Any] = {"tools": [TOOL]} if method == "tools/list" else FINE
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
            result["serverInfo"]["version"] = "1"
        if method not in ("initialize", "tools/list", "tools/call"):
            answer: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
        else:
            answer = {"result": result}
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
