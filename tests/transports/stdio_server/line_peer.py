"""A client that writes lines and reads lines, on a socket or a child process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from interlock.server import Anyone, Server
from interlock.transports.stdio.server import StdioServer
from interlock.wire.limits import DEFAULT, Limits

PATIENCE = 120.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


class LinePeer:
    """The other end of a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._ids = 0

    def write(self, line: bytes | str | dict[str, Any] | list[Any]) -> None:
        """One line, as it is or as JSON."""
        data = (
            line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else msgspec.json.encode(line)
        )
        self.writer.write(data + b"\n")

    async def read(self) -> Any:
        """The next line."""
        line = await asyncio.wait_for(self.reader.readline(), PATIENCE)
        assert line.endswith(b"\n"), "the stream ended"
        return msgspec.json.decode(line)

    def send(self, method: str, *, modern: bool = True, **params: Any) -> int:
        """A request; its id."""
        self._ids += 1
        if modern:
            params["_meta"] = {**META, **params.get("_meta", {})}
        self.write({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    async def call(self, method: str, *, modern: bool = True, **params: Any) -> dict[str, Any]:
        """A request and the next line, which must be its answer."""
        number = self.send(method, modern=modern, **params)
        answer = await self.read()
        assert answer["id"] == number
        return dict(answer)

    async def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        """Open a session."""
        info = {"name": "peer", "version": "1"}
        opened = await self.call(
            "initialize", modern=False, protocolVersion=version, capabilities=capabilities, clientInfo=info
        )
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return opened


@contextlib.asynccontextmanager
async def on_socket(
    server: Server, limits: Limits = DEFAULT, kind: type[StdioServer] = StdioServer
) -> AsyncIterator[tuple[LinePeer, StdioServer]]:
    """A server on one end of a socket pair, a peer on the other."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: kind(server, Anyone("socket"), limits=limits), sock=theirs)
    reader, writer = await asyncio.open_connection(sock=ours, limit=64 * 1024 * 1024)
    try:
        yield LinePeer(reader, writer), protocol
    finally:
        writer.close()
        protocol.close()
