"""The frame of HTTP servers that run in a test's own process: connections come, and each is served until it ends."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
from types import TracebackType
from typing import Any, NamedTuple, Self


class Posted(NamedTuple):
    """A request with a message."""

    headers: dict[str, str]
    """Names in lower case."""
    message: Any


class WebServer(abc.ABC):
    """Takes POSTs of JSON, and refuses every other method."""

    def __init__(self) -> None:
        self.connections = 0
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

    @abc.abstractmethod
    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one message. Whether another may follow on this connection."""

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._take(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if not first.startswith("POST"):
            writer.write(b"HTTP/1.1 405 Not Here\r\ncontent-length: 0\r\n\r\n")
            return True
        return await self.serve(Posted(headers, json.loads(body)), reader, writer)
