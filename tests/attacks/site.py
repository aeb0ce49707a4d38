"""A hub in the test's loop; whoever attacks it, and the servers behind it, are outside of that loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import forking
from attacks.watchdog import Watchdog, watching
from hub.running_hub import RunningHub, running_hub
from interlock.config.settings import HubSettings, ServerSettings

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import payloads  # noqa: E402 - found by the line before

META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
payloads.SIZE = 4_000_000
SIZED = {"PAYLOAD_BYTES": str(payloads.SIZE)}
SHAPES = payloads.VALUES
SIZE = payloads.SIZE


class AttackedHub:
    """A hub, its address and who watches its loop."""

    def __init__(self, hub: RunningHub, dog: Watchdog) -> None:
        self.hub = hub
        self.dog = dog
        self.port = int(hub.url.rpartition(":")[2])

    async def call(
        self, tool: str, make: Callable[[], bytes], key: str | None = None, *, address: str = "/mcp"
    ) -> dict[str, Any]:
        """The answer to one call. It is made, sent and read in a thread, with a socket of its own."""
        headers = f"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        self.dog.forget()
        return await asyncio.to_thread(self._post, address, make, headers, key)

    def _post(self, path: str, make: Callable[[], bytes], headers: str, key: str | None) -> dict[str, Any]:
        body = make()
        own = f"authorization: Bearer {key}\r\n" if key else ""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\n{headers}{own}content-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        heard = _exchange(self.port, head.encode() + body)
        answer: dict[str, Any] = json.loads(heard.partition(b"\r\n\r\n")[2])
        return answer


def call_of(tool: str, arguments: bytes, before: bytes = b"") -> bytes:
    """A stateless call, written by hand."""
    return b'{%b"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b,"_meta":%b}}' % (
        before,
        tool.encode(),
        arguments,
        META,
    )


def asking(what: str, shape: str) -> bytes:
    """Arguments that have a hostile server send that."""
    return json.dumps({"what": what, "shape": shape}).encode()


@contextlib.asynccontextmanager
async def attacked(tmp_path: Path, **settings: Any) -> AsyncIterator[AttackedHub]:
    """A hub before a good server and hostile ones over both transports."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = forking.command(str(BENCH / "stalling.py"))
    web = subprocess.Popen([*program, "web", str(port)], stdout=subprocess.PIPE, env=SIZED)  # noqa: ASYNC220 - before the loop matters
    assert web.stdout is not None
    await asyncio.to_thread(web.stdout.readline)
    servers = {
        "good": ServerSettings(command=(*program, "good"), era="modern", env=SIZED),
        "bad": ServerSettings(command=(*program, "bad"), era="modern", env=SIZED),
        "web": ServerSettings(url=f"http://127.0.0.1:{port}/mcp", era="modern"),
    }
    try:
        async with running_hub(tmp_path, servers, hub=HubSettings(**settings)) as hub:
            with watching() as dog:
                yield AttackedHub(hub, dog)
    finally:
        web.terminate()
        await asyncio.to_thread(web.wait)
        web.stdout.close()


def _exchange(port: int, data: bytes) -> bytes:
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line, contextlib.suppress(OSError):
        line.sendall(data)
        while piece := line.recv(1 << 20):
            heard += piece
    return heard
