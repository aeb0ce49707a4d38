"""Handles the tools for rooms and the resource of each room, for clients that speak nothing but MCP.

The rooms are a layer above the hub, so the handler reaches them through `RoomClients`. The topic judges what the caller
may do in it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import msgspec

from interlock.hub.auth.principals import SERVER
from interlock.hub.calls.call import Caller
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.live.events.touches import Touches
from interlock.hub.live.hooks import TaintRecorder
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tool_search.argument_check import ArgumentCheck
from interlock.hub.tool_search.room_definitions import ROOM_SCHEMAS, ROOM_TOOLS, ROOM_URI
from interlock.judge.results import judge_result
from interlock.judge.text import show_hidden
from interlock.protocols.mcpx.system import GATEWAY
from interlock.wire.errors import Fault
from interlock.wire.large import encode_large

MESSAGE: Final = "rooms"
"""The name of room messages among the sources of a taint."""


class UnjudgedMessage(msgspec.Struct, frozen=True):
    """A message of another participant, before it was judged."""

    label: dict[str, object]
    """The hub's label: who wrote the text, and its kind."""
    payload: bytes
    """The payload as JSON. A thread decodes it, since it may be long."""
    is_chat: bool
    """Whether its member `text` is all that a reader needs."""


class TakenMessages(Protocol):
    """The messages of a result, as their participant has them."""

    def put_back(self) -> None:
        """Let them wait again: the client did not get them."""


class RoomResult(msgspec.Struct):
    """The result of a tool for rooms."""

    facts: dict[str, object]
    """The facts that the hub itself states."""
    messages: list[UnjudgedMessage] = []
    """Each stands in a content block of its own."""
    taken: TakenMessages | None = None
    """Set where the messages waited for this client alone."""


class RoomClients(Protocol):
    """The participants that joined through tools."""

    async def perform(self, caller: Caller, exchange: Exchange, name: str, arguments: dict[str, Any]) -> RoomResult:
        """Perform one of the tools. Raises Fault."""

    def describe(self, caller: Caller, session: Session | None, topic: str) -> dict[str, object]:
        """The state of a room, for its resource. Raises Fault."""


class RoomHandler:
    """Serves the tools and resources of rooms."""

    names = ROOM_TOOLS

    def __init__(self, judging: JudgingThreads, touches: Touches, tainting: TaintRecorder) -> None:
        self._judging = judging
        self._touches = touches
        self._tainting = tainting
        self.clients: RoomClients | None = None
        self.arguments = ArgumentCheck(ROOM_SCHEMAS)

    def open(self, clients: RoomClients) -> None:
        """Serve these rooms from now on."""
        self.clients = clients

    def offers(self, caller: Caller) -> bool:
        """Whether a caller has the tools for rooms in its list."""
        return bool(caller.list_scope.rooms)

    def owns(self, caller: Caller, uri: str) -> bool:
        """Whether this is the resource of a room that the caller may join."""
        return uri.startswith(ROOM_URI) and uri.removeprefix(ROOM_URI) in caller.list_scope.rooms

    async def perform(self, exchange: Exchange, caller: Caller, name: str, arguments: dict[str, Any]) -> bytes:
        """The result of one of the tools."""
        if not exchange.open:
            raise Fault("CANCELLED", "the client gave the call up before it began")
        work = asyncio.ensure_future(self._room_clients().perform(caller, exchange, name, arguments))
        # A client that gives up waiting must not take messages that nobody reads.
        exchange.on_cancel = lambda reason: _give_up(work)
        found = await work
        try:
            blocks = await self._judged(caller, found.messages)
            if found.messages and not exchange.can_answer_now:
                raise Fault("CANCELLED", "the client left before it got its messages; they wait")
        except BaseException:
            if found.taken is not None:
                found.taken.put_back()
            raise
        facts = msgspec.json.encode(found.facts)
        return b'{"content":[%b],"structuredContent":%b}' % (b",".join([_block(facts.decode()), *blocks]), facts)

    def read(self, exchange: Exchange, caller: Caller, uri: str) -> None:
        """Answer `resources/read` for the resource of a room."""
        state = self._room_clients().describe(caller, exchange.session, uri.removeprefix(ROOM_URI))
        content = {"uri": uri, "mimeType": "application/json", "text": msgspec.json.encode(state).decode()}
        result = msgspec.json.encode({"contents": [content]})
        answer(exchange, result, ttl_ms=0)

    async def _judged(self, caller: Caller, messages: list[UnjudgedMessage]) -> list[bytes]:
        """Messages as content blocks for a model. From now on the agent's tools that change something ask a person."""
        senders = {str(message.label["from"]) for message in messages} - {GATEWAY}
        if senders:
            await self._touches.added(caller.principal.id)
        # Only the hub's own participants have such an id.
        servers = [id_.removeprefix(SERVER) for id_ in senders if id_.startswith(SERVER)]
        if servers:
            await self._tainting.note_delivery(caller.principal, servers, MESSAGE, caller.view.profile)
        if not messages:
            return []
        return await self._judging.run_result(
            caller.principal_name, lambda: [_block(shown(message)) for message in messages]
        )

    def _room_clients(self) -> RoomClients:
        if self.clients is None:
            raise Fault("SERVER_NOT_READY", "the rooms are being opened", retry_after_ms=500)
        return self.clients


def shown(message: UnjudgedMessage) -> str:
    """A message with its label on the first line, hidden characters visible. Pure and slow: it searches the text."""
    payload = msgspec.json.decode(message.payload, type=dict[str, Any])
    text = payload.get("text") if message.is_chat else None
    found = judge_result(payload, may_ask=True)
    label = message.label | ({"warnings": [finding.message for finding in found]} if found else {})
    said = text if isinstance(text, str) else message.payload.decode()
    return show_hidden(f"{msgspec.json.encode(label).decode()}\n{said}")


def _block(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % encode_large(text)


def _give_up(work: asyncio.Future[RoomResult]) -> None:
    work.cancel()
