"""A client that says exactly what a test wants said, over the link within one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, LOG_LEVEL, PROTOCOL_VERSION
from interlock.server import Anyone, Server
from interlock.transports.link import Outgoing
from interlock.transports.memory.link import MemoryLink
from interlock.wire.conversation import NAMES_REQUEST
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

PATIENCE = 10.0
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Refusal(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Pending:
    """A request under way, and what was said about it."""

    def __init__(self, peer: Peer) -> None:
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.noted = asyncio.Event()
        self._peer = peer

    def on_response(self, answer: Result | Failure) -> None:
        if isinstance(answer, Failure):
            data = msgspec.json.decode(answer.error.data) if bytes(answer.error.data) else {}
            self.answer.set_exception(Refusal(answer.error.code, answer.error.message, data))
        else:
            self.answer.set_result(msgspec.json.decode(answer.result))

    def on_notification(self, method: str, params: bytes) -> None:
        self.notes.append((method, msgspec.json.decode(params)))
        self.noted.set()

    def on_request(self, request: Request) -> None:
        self._peer.on_request(request)

    def on_lost(self, fault: Fault) -> None:
        self.answer.set_exception(fault)


class Peer:
    """A client of a server in this process. Modern unless `legacy` opened a session."""

    def __init__(self, server: Server, *, principal_name: str = "anyone", capabilities: object = None) -> None:
        self.link = MemoryLink(server, Anyone(principal_name), self)
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.modern = True
        self.log_level: str | None = None
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.hears: asyncio.Event = asyncio.Event()
        self.answers: Callable[[Request], object] = lambda request: {}
        self.questions: list[Request] = []

    async def legacy(self, version: str = "2025-11-25") -> dict[str, Any]:
        """Open a session of the handshake era."""
        self.modern = False
        opened = await self.call(
            "initialize",
            protocolVersion=version,
            capabilities=self.capabilities,
            clientInfo={"name": "peer", "version": "1"},
        )
        self.link.tell("notifications/initialized", b"{}")
        return opened

    def start(self, method: str, **params: Any) -> tuple[Id, Pending]:
        """Send a request; what comes back is in the second. Notifications that name it are accepted."""
        if self.modern:
            meta = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: self.capabilities, **params.pop("_meta", {})}
            if self.log_level is not None:
                meta[LOG_LEVEL] = self.log_level
            params = {"_meta": meta, **params}
        pending = Pending(self)
        deadline = asyncio.get_running_loop().time() + PATIENCE
        outgoing = Outgoing(method, msgspec.json.encode(params), deadline, accepts=NAMES_REQUEST)
        handle = self.link.send(outgoing, pending)
        return handle, pending

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A request and its result. Raises `Refusal`."""
        return await self.start(method, **params)[1].answer

    async def tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """A tool call."""
        return await self.call("tools/call", name=name, arguments=arguments or {}, **more)

    # The listener's side.

    def on_notification(self, method: str, params: bytes) -> None:
        self.heard.append((method, msgspec.json.decode(params)))
        self.hears.set()

    def on_request(self, request: Request) -> None:
        self.questions.append(request)
        self.link.answer(request.id, msgspec.json.encode(self.answers(request)))

    def on_closed(self, fault: Fault) -> None:
        pass

    def on_log(self, stream: str, text: str) -> None:
        pass
