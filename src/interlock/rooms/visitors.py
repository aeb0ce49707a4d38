"""Principals that watch topics and speak there through operations, such as people in the console.

Rule: each is a member like any other, in addition to other connections of its principal. It sees messages from its
joining on, and leaves when nobody has looked for a while.
"""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.hub.admin.rooms import LeftRoom, RoomMessage, RoomView, SentEnvelope
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.rooms.local_participant import LocalParticipant
from interlock.rooms.tickets import Admission
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.topic_operations import TopicOperations
    from interlock.rooms.topics import Topics

IDLE_S: Final = 60.0
"""A visitor that did not look for this time has left."""
MAX_VISITORS: Final = 256
MAX_PER_PRINCIPAL: Final = 8
MAX_KEPT: Final = 200
"""Messages that a visitor sees."""
MAX_CHARS: Final = 4_000
"""Characters of one message."""
LONG_PAYLOAD: Final = 64 * 1024
"""A longer payload is shown unformatted, because formatting it would take long."""
_NOT_SHOWN: Final = (kinds.WELCOME, kinds.HISTORY)

Key = tuple[Principal, str]


class Visitor(LocalParticipant):
    """One principal in one topic. It keeps the last messages, for several pages to read."""

    keeps_unread = False

    def __init__(self, topics: Topics, topic: str, by: Principal) -> None:
        self.looked_at = time.monotonic()
        self.messages: deque[RoomMessage] = deque(maxlen=MAX_KEPT)
        super().__init__(topics.admit(topic, Admission(by, separate=True), ReceiveMode.ALL))

    def on_text(self, data: bytes) -> None:
        """Keep a message of another participant."""
        self.on_said(data)

    def on_said(self, data: bytes) -> None:
        """Keep a message of any participant."""
        try:
            envelope = decode(data)
        except EnvelopeRefused:
            self.lost += 1
            return
        if envelope.kind.type not in _NOT_SHOWN:
            self.messages.append(_message(envelope))


class Visitors:
    """All of them (`hub.admin.rooms.RoomVisitors`)."""

    def __init__(self, topics: Topics, operations: TopicOperations) -> None:
        self._topics = topics
        self._operations = operations
        self._joined: dict[Key, Visitor] = {}

    def watch(self, by: Principal, topic: str) -> RoomView:
        """The topic with its last messages. The principal joins it with the first look. Raises Fault."""
        one = self._visitor(by, topic)
        one.looked_at = time.monotonic()
        (row,) = self._operations.rows(topic)
        capabilities = self._topics.participants(topic).get(one.id, ())
        return RoomView(row, one.id, list(capabilities), list(one.messages), one.lost)

    def say(self, by: Principal, topic: str, text: str, to: tuple[str, ...]) -> SentEnvelope:
        """Say something to all, or to some. Raises Fault."""
        try:
            return SentEnvelope(self._visitor(by, topic).chat(text, to))
        except EnvelopeRefused as refusal:
            raise _fault(refusal) from None

    def propose(
        self, by: Principal, topic: str, method: str, params: dict[str, Any], to: tuple[str, ...]
    ) -> SentEnvelope:
        """Propose a request that another participant may make. Raises Fault."""
        try:
            return SentEnvelope(self._visitor(by, topic).propose(method, params, to))
        except EnvelopeRefused as refusal:
            raise _fault(refusal) from None

    def leave(self, by: Principal, topic: str) -> LeftRoom:
        """Leave a topic, if the principal is there."""
        one = self._joined.pop((by, topic), None)
        if one is not None:
            one.leave()
        return LeftRoom(one is not None)

    def tick(self) -> None:
        """Remove visitors that have not looked for a while."""
        before = time.monotonic() - IDLE_S
        for key, one in list(self._joined.items()):
            if one.ended or one.looked_at < before:
                one.leave()
                del self._joined[key]

    def _visitor(self, by: Principal, topic: str) -> Visitor:
        one = self._joined.get((by, topic))
        if one is None or one.ended:
            own = sum(1 for who, _ in self._joined if who == by)
            if own >= MAX_PER_PRINCIPAL:
                hint = "leave one of them, or wait a minute"
                raise Fault("RESOURCE_EXHAUSTED", f"you watch {own} topics", hint=hint, retry_after_ms=60_000)
            if len(self._joined) >= MAX_VISITORS:
                raise Fault("RESOURCE_EXHAUSTED", f"{MAX_VISITORS} visitors watch topics", retry_after_ms=60_000)
            self._topics.check_loaded()
            one = self._joined[by, topic] = Visitor(self._topics, topic, by)
        return one


def _fault(refusal: EnvelopeRefused) -> Fault:
    return Fault("PERMISSION_DENIED", refusal.message, hint=refusal.fix, data={"reason": refusal.reason.value})


def _message(envelope: Envelope) -> RoomMessage:
    text = _text(envelope)
    return RoomMessage(
        id=envelope.id,
        sender=envelope.sender,
        kind=envelope.kind.text,
        to=list(envelope.to),
        about=envelope.correlation_id or "",
        text=text[:MAX_CHARS],
        is_cut=len(text) > MAX_CHARS,
        at=datetime.now(UTC),
    )


def _text(envelope: Envelope) -> str:
    if len(envelope.payload) > LONG_PAYLOAD:
        return envelope.payload.decode(errors="replace")
    payload = msgspec.json.decode(envelope.payload, type=dict[str, Any])
    match envelope.kind.type, payload:
        case kinds.CHAT, {"text": str(text)}:
            return text
        case kinds.PRESENCE, {"event": str(event), "participant": {"id": str(who)}}:
            return f"{who} {'came' if event == 'join' else 'left'}"
    return msgspec.json.format(envelope.payload, indent=2).decode()
