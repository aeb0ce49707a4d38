"""A client that is a host of MCPL, written by hand, over HTTP in either era: it says exactly what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from .running_hub import MODERN, PREFIX, RawClient, RunningHub

HOST: dict[str, Any] = {
    "version": "0.4",
    "pushEvents": True,
    "contextHooks": {"beforeInference": True, "afterInference": {"blocking": True}},
    "inferenceRequest": {"streaming": True},
    "channels": {"register": True, "publish": True, "observe": True, "lifecycle": True, "streaming": True},
    "featureSets": True,
}
SINCE_0_5 = {"modelInfo": True}
"""A host of 0.4 does not declare it (MCPL, Host Support)."""
HOMES = {
    "experimental": lambda said: {"experimental": {"mcpl": said}},
    "extensions": lambda said: {"extensions": {"dev.interlock/mcpl": said}},
}


class HostClient(RawClient):
    """A host. Requests of servers are answered with `answers`, by method, and kept in `asked`.

    A request whose answer is None stays open.
    """

    def __init__(self, hub: RunningHub, agent: str, *, modern: bool, version: str = "0.4", home: str = "experimental"):
        super().__init__(hub.url + "/mcp", hub.key(agent))
        self.is_modern = modern
        self.home = home
        more = {} if version == "0.4" else SINCE_0_5
        self.capabilities = HOMES[home]({**HOST, **more, "version": version})
        self.manifest: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._ids = 100

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[HostClient]:
        """Introduce it, and read its stream."""
        if self.is_modern:
            offered = (await self.ask("server/discover"))["result"]["capabilities"]
            wanted = {"dev.interlock/live": {}}
            body = self._body("subscriptions/listen", {"notifications": wanted})
            reader, writer = await self._open("POST", body, {"mcp-method": "subscriptions/listen"})
        else:
            offered = (await self.initialize(self.capabilities))["result"]["capabilities"]
            reader, writer = await self._open("GET", b"", {})
        self.manifest = offered[self.home]["mcpl" if self.home == "experimental" else "dev.interlock/mcpl"]
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(reader, opened))
        try:
            await asyncio.wait_for(opened, 60)
            yield self
        finally:
            reading.cancel()
            writer.close()

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The answer to a request."""
        self._ids += 1
        if not self.is_modern:
            return await self.legacy(method, params, id=self._ids)
        meta = {"_meta": {f"{PREFIX}clientCapabilities": self.capabilities}}
        return await self.modern(method, {**(params or {}), **meta}, id=self._ids)

    async def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request."""
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        said = {"jsonrpc": "2.0", "method": method, "params": params}
        status, _, _ = await self.post(json.dumps(said).encode(), self._headers(method))
        assert status == 202

    async def select(self, *enabled: str, **more: Any) -> Any:
        """Send `featureSets/update`: a notification where 0.4 has sessions, else a request."""
        said = {"enabled": list(enabled), **more}
        if self.is_modern or "effectiveCapabilities" in more:
            return await self.result("featureSets/update", said)
        return await self.tell("featureSets/update", said)

    async def notified(self, method: str) -> dict[str, Any]:
        """The params of the next notification of a method."""
        while True:
            said = await asyncio.wait_for(self.heard.get(), 60)
            if said["method"] == method:
                return dict(said["params"])

    def _headers(self, method: str) -> dict[str, str]:
        return {"mcp-protocol-version": MODERN, "mcp-method": method} if self.is_modern else {}

    def _body(self, method: str, params: dict[str, Any]) -> bytes:
        meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": self.capabilities}
        return json.dumps({"jsonrpc": "2.0", "id": "s", "method": method, "params": {**params, "_meta": meta}}).encode()

    async def _open(
        self, method: str, body: bytes, more: Mapping[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        said = {"host": f"{self.host}:{self.port}", "accept": "text/event-stream, application/json", **more}
        said |= {"authorization": f"Bearer {self.key}", "content-length": str(len(body))}
        if self.session:
            said["mcp-session-id"] = self.session
        if body:
            said |= {"content-type": "application/json", "mcp-protocol-version": MODERN}
        reader, writer = await asyncio.open_connection(self.host, int(self.port))
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        writer.write(f"{method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return reader, writer

    async def _read(self, reader: asyncio.StreamReader, opened: asyncio.Future[None]) -> None:
        while line := await reader.readline():
            if not opened.done() and not self.is_modern and line.startswith(b"HTTP/1.1 200"):
                opened.set_result(None)
            if not line.startswith(b"data:") or not line[5:].strip():
                continue
            message = json.loads(line[5:])
            if message.get("method") == "notifications/subscriptions/acknowledged":
                assert "dev.interlock/live" in message["params"]["notifications"]
                opened.set_result(None)
                continue
            if message.get("method") == "notifications/dev.interlock/live":
                message = message["params"]
            if "method" not in message:
                continue
            if "id" in message:
                await self._answer(message)
                self.asked.put_nowait(message)
            else:
                self.heard.put_nowait(message)

    async def _answer(self, message: dict[str, Any]) -> None:
        said = self.answers.get(message["method"], {"error": {"code": -32601, "message": "not here"}})
        said = await said(message) if callable(said) else said
        if said is None:
            return
        said = said if "error" in said else {"result": said}
        if self.is_modern:
            await self.result("dev.interlock/answer", {"id": message["id"], **said})
        else:
            await self.post(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode())
