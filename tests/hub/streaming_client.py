"""A client on a stream of lines that keeps everything it is told, in either era, with the capabilities of a test."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

import msgspec

from .running_hub import MODERN, PREFIX, KeptStdioClient, RunningHub

STREAMING = {"mgp": {"version": "0.2.0", "extensions": ["streaming", "bidirectional"]}}


class StreamingClient(KeptStdioClient):
    """It sorts what comes by the request it belongs to, while it reads."""

    def __init__(
        self, hub: RunningHub, key: str | None = None, *, modern: bool, capabilities: dict[str, Any] | None = None
    ) -> None:
        super().__init__(hub, key, modern=modern)
        self.capabilities = STREAMING if capabilities is None else capabilities
        self.told: list[dict[str, Any]] = []
        self._answers: dict[Any, asyncio.Future[dict[str, Any]]] = defaultdict(
            lambda: asyncio.get_running_loop().create_future()
        )
        self._changed = asyncio.Event()
        self._rest = b""
        self._reading: asyncio.Task[None] | None = None

    async def introduce(self, **beside: Any) -> None:
        """Open a session with the client's own capabilities."""
        self.go_on()
        info = {"name": "streaming", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities, "clientInfo": info}
        self.opened = await self.ask("initialize", params, "open")
        await self.tell("notifications/initialized", {})

    async def __aexit__(self, *_: object) -> None:
        await self.stall()
        await super().__aexit__()

    def go_on(self) -> None:
        """Read what comes."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all())

    async def stall(self) -> None:
        """Read nothing until `go_on`."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            self._reading = None

    def start(self, method: str, params: dict[str, Any], id: int | str) -> asyncio.Future[dict[str, Any]]:
        """Send a request."""
        if self.modern:
            meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": self.capabilities}
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        self.write(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        return self._answers[id]

    async def ask(self, method: str, params: dict[str, Any], id: int | str) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self.go_on()
        return await asyncio.wait_for(asyncio.shield(self.start(method, params, id)), 60)

    async def stream(self, name: str, arguments: dict[str, Any], id: int | str, **more: Any) -> dict[str, Any]:
        """Call a tool and ask for chunks."""
        said = {"name": name, "arguments": arguments, "_mgp": {"stream": True}, **more}
        return await self.ask("tools/call", said, id)

    def notes(self, method: str, id: Any = None) -> list[dict[str, Any]]:
        """The params of the notifications of a method so far, of one request or of all."""
        found = [each["params"] for each in self.told if each["method"] == method]
        return [each for each in found if id is None or each.get("request_id") == id]

    async def heard(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many notifications of a method have come."""
        self.go_on()
        async with asyncio.timeout(60):
            while len(self.notes(method)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.notes(method)

    async def _read_all(self) -> None:
        # By hand: a line may be as long as a whole result.
        while piece := await self._reader.read(2**18):
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.told.append(message)
            self._changed.set()
        else:
            self._answers[message["id"]].set_result(message)
