"""Bytes to and from a hub, exactly as an attacker would write them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hub.running_hub import RunningHub

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def address(hub: RunningHub) -> str:
    """Host and port."""
    return hub.url.removeprefix("http://")


async def talk(hub: RunningHub, data: bytes, within_s: float = 10.0) -> bytes:
    """Everything that the hub says to these bytes until it hangs up or falls silent."""
    reader, writer = await asyncio.open_connection(*address(hub).split(":"))
    heard = b""
    try:
        writer.write(data)
        async with asyncio.timeout(within_s):
            while piece := await reader.read(65_536):
                heard += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return heard


def status_of(heard: bytes) -> int:
    """The status of the first answer; 0 for none."""
    return int(heard[9:12]) if heard.startswith(b"HTTP/1.1 ") else 0


def request(hub: RunningHub, method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole request on a connection of its own. Underscores in names stand for hyphens."""
    said = {
        "host": address(hub),
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "connection": "close",
        "content-length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def call_body(name: str, arguments: dict[str, Any], id: object = 1, meta: dict[str, Any] | None = None) -> bytes:
    """A stateless call."""
    params = {"name": name, "arguments": arguments, "_meta": {**MODERN, **(meta or {})}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def call_request(hub: RunningHub, name: str, arguments: dict[str, Any], body: bytes = b"", **headers: str) -> bytes:
    """The same as a whole request."""
    said = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": name, **headers}
    return request(hub, "POST", "/mcp", body or call_body(name, arguments), **said)


async def executed(hub: RunningHub) -> int:
    """How many calls were sent to servers, by the hub's own record."""
    await hub.hub_app.recorder.flushed()
    await asyncio.sleep(0)
    return sum(hub.hub_app.counts.calls.values())
