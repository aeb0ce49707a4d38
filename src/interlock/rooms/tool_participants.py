"""Participants that joined through MCP tools (`join_room` and the rest), for clients that only speak MCP.

Rule: each is a member like any other, with the principal of its calls. The hub answers `tools/list` and `ping` for it.
All other envelopes wait for `wait_in_room`. Presence waits, too, but does not end a call of that tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.hub.auth.principals import LOCAL_AGENT
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.rooms import RoomResult, UnjudgedMessage
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tool_search import room_definitions as tools
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.rooms.local_participant import LocalParticipant
from interlock.rooms.member import RoomMember
from interlock.rooms.tickets import Admission
from interlock.wire.errors import Fault
from interlock.wire.names import may_spell

if TYPE_CHECKING:
    from interlock.rooms.topic_operations import TopicOperations
    from interlock.rooms.topics import Topics

IDLE_S: Final = 900.0
"""A client that called no tool of a room for this time has left the room."""
MAX_PARTICIPANTS: Final = 10_000
MAX_PER_PRINCIPAL: Final = 16
MAX_MESSAGES: Final = 50
"""Messages in one answer of `wait_in_room`."""
MAX_BYTES: Final = 128 * 1024
"""Bytes of payloads in one answer. The last message may exceed them."""
ANSWERED: Final[dict[str, dict[str, object]]] = {"tools/list": {"tools": []}, "ping": {}}
"""Requests that the hub answers for such a participant."""
ANSWERED_BYTES: Final = tuple(method.encode() for method in ANSWERED)
_HISTORY: Final = kinds.HISTORY.encode()
_PRESENCE: Final = kinds.PRESENCE.encode()

Key = tuple[str, str, str]
"""Principal, session and topic."""


class ToolParticipant(LocalParticipant):
    """One client in one topic."""

    def __init__(self, member: RoomMember, session: Session | None) -> None:
        self.session = session
        self.used_at = time.monotonic()
        self.waiting = 0
        """Calls of `wait_in_room` that are open."""
        super().__init__(member)

    def on_text(self, data: bytes) -> None:
        """Keep an envelope for `wait_in_room`, unless the hub answers it. Cursors are useless here and dropped."""
        if may_spell(data, _HISTORY) and _kind(data) == kinds.HISTORY:
            return
        if any(may_spell(data, method) for method in ANSWERED_BYTES) and (answer := self._answer(data)) is not None:
            # Not now: other members may not have the request yet.
            asyncio.get_running_loop().call_soon(self._respond, *answer)
        else:
            super().on_text(data)

    def ends_wait(self, data: bytes) -> bool:
        """Whether the envelope is a message. Presence alone does not end a wait."""
        return not (may_spell(data, _PRESENCE) and _kind(data) == kinds.PRESENCE)

    def _answer(self, data: bytes) -> tuple[Envelope, dict[str, object]] | None:
        """The request that the hub answers, with the response; None for any other envelope."""
        try:
            envelope = decode(data)
            if envelope.kind.type != kinds.REQUEST or self.id not in envelope.to:
                return None
            operation = check_payload(envelope)
        except EnvelopeRefused:
            return None
        result = ANSWERED.get(operation.method or "")
        return None if result is None else (envelope, {"jsonrpc": "2.0", "id": operation.id, "result": result})

    def _respond(self, request: Envelope, payload: dict[str, object]) -> None:
        if not self.ended:
            with contextlib.suppress(EnvelopeRefused):  # The participant may lack the capability for responses.
                self.say(f"{kinds.RESPONSE}:{request.kind.operation}", payload, [request.sender], request.id)


class TakenEnvelopes(msgspec.Struct, frozen=True):
    """The envelopes in one answer of `wait_in_room` (`hub.handlers.rooms.TakenMessages`)."""

    participant: ToolParticipant
    envelopes: list[Envelope]
    lost: int
    """How many the answer says were lost."""

    def put_back(self) -> None:
        """Let them wait for the next call."""
        self.participant.lost += self.lost
        self.participant.put_back(self.envelopes)


class ToolParticipants:
    """All of them (`hub.handlers.rooms.RoomClients`)."""

    def __init__(self, topics: Topics, operations: TopicOperations) -> None:
        self._topics = topics
        self._operations = operations
        self.joined: dict[Key, ToolParticipant] = {}

    def tick(self) -> None:
        """Remove participants whose session ended, or that called no tool for a while."""
        now = time.monotonic()
        for key, one in list(self.joined.items()):
            idle = not one.waiting and now - one.used_at > IDLE_S
            if one.ended or idle or (one.session is not None and one.session.over):
                one.leave()
                del self.joined[key]

    async def perform(self, caller: Caller, exchange: Exchange, name: str, arguments: dict[str, Any]) -> RoomResult:
        """Perform one of the tools. Raises Fault."""
        topic, session = arguments["room"], exchange.session
        if topic not in caller.list_scope.rooms:
            raise Fault("NOT_FOUND", f"no room {topic[:64]!r}", hint=f"one of {', '.join(caller.list_scope.rooms)}")
        key = caller.principal_name, "" if session is None else session.id, topic
        if name == tools.JOIN:
            return self._join(caller, session, key)
        one = self.joined.get(key)
        if one is None or one.ended:
            why = f" any more: {one.ended}" if one is not None else ""
            raise Fault("INVALID_PARAMS", f"you are not in {topic}{why}", hint=f"call {tools.JOIN} first")
        one.used_at = time.monotonic()
        if name == tools.WAIT:
            return await self._wait(one, exchange, arguments)
        if name == tools.LEAVE:
            one.leave()
            del self.joined[key]
            return RoomResult({"room": topic, "left": True})
        try:
            return self._say(one, arguments) if name == tools.SAY else self._propose(one, arguments)
        except EnvelopeRefused as refusal:
            data = {"reason": refusal.reason.value}
            raise Fault("PERMISSION_DENIED", refusal.message, hint=refusal.fix, data=data) from None

    def describe(self, caller: Caller, session: Session | None, topic: str) -> dict[str, object]:
        """The participants of a room, and the envelopes that wait there for this caller."""
        (row,) = self._operations.rows(topic)
        one = self.joined.get((caller.principal_name, "" if session is None else session.id, topic))
        return {
            "room": topic,
            "participants": [participant.id for participant in row.participants],
            "servers": [f"server:{name}" for name in row.servers],
            "open_proposals": row.open_proposals,
            "you": None if one is None else one.id,
            "unread": 0 if one is None else one.unread,
        }

    def _join(self, caller: Caller, session: Session | None, key: Key) -> RoomResult:
        topic, one = key[2], self.joined.get(key)
        if one is None or one.ended:
            own = sum(1 for principal_name, _, _ in self.joined if principal_name == caller.principal_name)
            if own >= MAX_PER_PRINCIPAL:
                raise Fault("RESOURCE_EXHAUSTED", f"you are in {own} rooms", hint=f"call {tools.LEAVE} in one of them")
            if len(self.joined) >= MAX_PARTICIPANTS:
                message = f"{MAX_PARTICIPANTS} clients are in rooms through tools"
                raise Fault("RESOURCE_EXHAUSTED", message, hint="wait until one leaves", retry_after_ms=60_000)
            principal = None if caller.principal == LOCAL_AGENT else caller.principal
            self._topics.check_loaded()
            # Joining by a tool must not replace another connection of the same principal.
            separate = principal is not None and principal.id in self._topics.participants(topic)
            member = self._topics.admit(topic, Admission(principal, separate), ReceiveMode.DIRECTED)
            one = self.joined[key] = ToolParticipant(member, session)
            one.drain()  # Drop its own welcome and presence.
        one.used_at = time.monotonic()
        others = self._topics.participants(topic)
        facts: dict[str, object] = {
            "room": topic,
            "you": one.id,
            "your_capabilities": list(others.pop(one.id, ())),
            "participants": {id_: list(texts) for id_, texts in others.items()},
        }
        return RoomResult(facts)

    def _say(self, one: ToolParticipant, arguments: dict[str, Any]) -> RoomResult:
        return RoomResult({"id": one.chat(arguments["text"], arguments.get("to", ()), arguments.get("reply_to"))})

    def _propose(self, one: ToolParticipant, arguments: dict[str, Any]) -> RoomResult:
        id_ = one.propose(arguments["method"], arguments["params"], arguments.get("to", ()))
        return RoomResult({"proposal": id_, "state": "open"})

    async def _wait(self, one: ToolParticipant, exchange: Exchange, arguments: dict[str, Any]) -> RoomResult:
        one.waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(arguments.get("seconds", tools.MAX_WAIT_S)):
                    await one.wait()
        finally:
            one.waiting -= 1
            one.used_at = time.monotonic()
        if not exchange.can_answer_now:
            raise Fault("CANCELLED", "the client left before it got its messages; they wait")
        envelopes: list[Envelope] = []
        while len(envelopes) < MAX_MESSAGES and sum(len(taken.payload) for taken in envelopes) < MAX_BYTES:
            envelope = one.read()
            if envelope is None:
                break
            envelopes.append(envelope)
        messages = [_message(envelope) for envelope in envelopes]
        lost, one.lost = one.lost, 0
        facts: dict[str, object] = {"messages": len(messages), "unread": one.unread, "lost": lost}
        if one.ended:
            facts["ended"] = one.ended
        return RoomResult(facts, messages, TakenEnvelopes(one, envelopes, lost))


def _kind(data: bytes) -> str:
    """The kind of an envelope; empty for one that cannot be read."""
    try:
        return decode(data).kind.text
    except EnvelopeRefused:
        return ""


def _message(envelope: Envelope) -> UnjudgedMessage:
    """An envelope as a message for a model, with a label that the hub writes."""
    head: dict[str, object] = {"from": envelope.sender, "kind": envelope.kind.text, "id": envelope.id}
    if envelope.to:
        head["to"] = envelope.to
    if envelope.correlation_id is not None:
        head["about"] = envelope.correlation_id
    return UnjudgedMessage(head, envelope.payload, envelope.kind.type == kinds.CHAT)
