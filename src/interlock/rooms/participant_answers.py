"""Answers requests to a participant with an MCP server of its own (MCPx, MCP Integration).

Rule: every request that names the participant gets one response. Broadcasts get none: two servers could act on one.
The hub's own tool servers in a topic are in `hub_tool_server.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

import msgspec

from interlock.client.client import Client
from interlock.client.dial import Target
from interlock.process.task_set import TaskSet
from interlock.protocols.mcp.revisions import agree
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import RefusalReason
from interlock.protocols.mcpx.payloads import PayloadMethod, check_payload
from interlock.rooms.errors import RoomError
from interlock.rooms.mcp_requests import SERVED_METHODS, params_of, response_kind
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import EMPTY_OBJECT

MAX_OPEN: Final = 256
"""Open requests. Further ones are refused, one after the other."""
MAX_ANSWER_S: Final = 600.0
"""How long the server may take for one request."""


class Responder(Protocol):
    """The participant, as its server uses it."""

    id: str

    def may_send(self, kind: str) -> bool: ...

    async def respond(self, request: Envelope, result: msgspec.Raw) -> str: ...

    async def fail(self, request: Envelope, message: str, code: int, data: object) -> str: ...


class ParticipantAnswers:
    """The answers of one participant, by the server behind it."""

    def __init__(self, target: Target) -> None:
        self._client = Client(target, name="interlock rooms", era="legacy")
        self._open: dict[asyncio.Task[None], tuple[str, str]] = {}
        """Requests that are being answered: their sender, and their JSON-RPC id as a text."""
        self._refusals = TaskSet()

    async def start(self) -> None:
        """Connect to the server. Raises a `Fault`."""
        await self._client.__aenter__()

    async def close(self) -> None:
        """Cancel open requests, and disconnect from the server."""
        await self._refusals.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(list(self._open))
        await self._client.__aexit__(None, None, None)

    async def take(self, me: Responder, envelope: Envelope) -> None:
        """Answer a request in a task of its own. The envelope was checked before.

        Beyond the bound, nothing more is read until the refusal is sent, so that a flood waits at its own connection.
        """
        if envelope.kind.type != kinds.REQUEST or me.id not in envelope.to:
            return
        operation = check_payload(envelope)
        if operation.id is None:
            self._notified(envelope.sender, operation)
        elif not me.may_send(response_kind(envelope)):
            return  # Without the right to answer, do not act either: nobody would learn of the outcome.
        elif len(self._open) >= MAX_OPEN:
            full = Fault("RESOURCE_EXHAUSTED", f"{MAX_OPEN} requests wait", retry_after_ms=1000)
            await self._refusals.complete(_refuse(me, envelope, full))
        else:
            task = asyncio.create_task(self._answer(me, envelope, operation), name="room request")
            self._open[task] = envelope.sender, str(operation.id)
            task.add_done_callback(self._open.pop)

    async def _answer(self, me: Responder, envelope: Envelope, operation: PayloadMethod) -> None:
        with contextlib.suppress(RoomError):  # the connection is gone, and with it the answer
            try:
                result = await self._result(envelope, operation.method or "")
                await me.respond(envelope, msgspec.Raw(result))
            except Fault as fault:
                await _fail(me, envelope, fault)
            except RoomError as error:
                if error.reason == RefusalReason.TOO_LARGE.value:
                    await _fail(me, envelope, Fault("TOO_LARGE", error.message, hint="ask for less"))

    async def _result(self, envelope: Envelope, method: str) -> bytes:
        params = params_of(envelope)
        if method == "ping":
            return EMPTY_OBJECT
        if method == "initialize":
            return self._introduction(params)
        if method not in SERVED_METHODS:
            raise Fault("METHOD_NOT_FOUND", f"{method[:100]} is not served here")
        return await self._client.connection.request(method, params, timeout=MAX_ANSWER_S)

    def _introduction(self, params: bytes) -> bytes:
        """The answer to `initialize`, which is optional in a room."""
        peer = self._client.connection.peer
        revision = msgspec.json.decode(params, type=dict[str, object]).get("protocolVersion")
        offered = msgspec.json.decode(peer.capabilities, type=dict[str, object])
        introduction: dict[str, object] = {
            "protocolVersion": agree(revision if isinstance(revision, str) else "").name,
            # Nobody can subscribe in a room, so the capabilities promise no notifications.
            "capabilities": {each: {} for each in ("tools", "resources", "prompts", "completions") if each in offered},
            "serverInfo": msgspec.Raw(peer.server_info),
        }
        if peer.instructions:
            introduction["instructions"] = peer.instructions
        return msgspec.json.encode(introduction)

    def _notified(self, sender: str, operation: PayloadMethod) -> None:
        """Handle `notifications/cancelled` of the same sender. Other notifications have no effect."""
        if operation.method == CANCELLED_METHOD:
            for task, operation_key in list(self._open.items()):
                if operation_key == (sender, operation.target):
                    task.cancel()


async def _refuse(me: Responder, request: Envelope, fault: Fault) -> None:
    with contextlib.suppress(RoomError):  # the connection is gone, and with it the answer
        await _fail(me, request, fault)


async def _fail(me: Responder, request: Envelope, fault: Fault) -> None:
    error = fault.render(ErrorDialect.OLD_MCP)
    await me.fail(request, error.message, error.code, error.data if bytes(error.data) else None)
