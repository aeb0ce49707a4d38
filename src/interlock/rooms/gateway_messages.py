"""Envelopes of the gateway itself: welcome, presence, errors and cursors. No participant can send these kinds.

Each has a new id, which the topic remembers, so that no participant can reuse it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import msgspec

from interlock.protocols.mcpx import system
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.routing import TopicParticipant
from interlock.protocols.mcpx.topic import Topic
from interlock.rooms.frame_queue import FrameQueue
from interlock.rooms.given_texts import GivenTexts
from interlock.rooms.history import TopicHistory, servers_in
from interlock.rooms.member import RoomMember
from interlock.rooms.timestamps import timestamp
from interlock.transports.websocket import text_frame


class GatewayMessages:
    """Sends the gateway's envelopes to the members of one topic."""

    def __init__(self, topic: Topic, frames: FrameQueue, given_texts: GivenTexts) -> None:
        self._topic = topic
        self._frames = frames
        self._given_texts = given_texts

    def welcome(
        self,
        member: RoomMember,
        history: TopicHistory | None,
        cursor: str | None = None,
        *,
        recovered: bool | None = None,
    ) -> None:
        """Tell a member its own id, the other participants, and its position in the history."""
        you = self._topic.participant(member.id)
        assert you is not None
        others = tuple(one.info for one in self._topic.participants if one.id != member.id)
        position: system.HistoryPayload | msgspec.UnsetType = msgspec.UNSET
        if history is not None:
            position = system.HistoryPayload(cursor or history.cursor(member.subject), recovered)
        self._send(system.welcome(self._id(), you.info, others, timestamp(), position), (member,))

    def welcome_back(
        self, member: RoomMember, participant: TopicParticipant, history: TopicHistory | None, since: str
    ) -> None:
        """Welcome a member that comes with a cursor, and send the missed envelopes or `history_lost`."""
        missed = None if history is None else history.missed(since, member.subject, participant)
        # The old cursor stays valid until the member has all envelopes, because the connection may end before.
        self.welcome(member, history, since if missed is not None else None, recovered=missed is not None)
        if missed:
            hold = self._given_texts.note_history(member, servers_in(missed), self._frames)
            for entry in missed:
                self._frames.send_soon(text_frame(entry.data.encode()), (member,), hold)
        if missed is None:
            message = "The envelopes that you missed are not kept any more."
            self.refuse(member, EnvelopeRefused(RefusalReason.HISTORY_LOST, message, "Ask the others what happened."))
        elif history is not None:
            self.cursor(member, history)

    def cursor(self, member: RoomMember, history: TopicHistory) -> None:
        """Send a member its current cursor."""
        envelope = system.history(self._id(), member.id, history.cursor(member.subject), timestamp())
        self._send(envelope, (member,))

    def presence(
        self, event: system.PresenceEvent, participant: TopicParticipant, members: Iterable[RoomMember]
    ) -> None:
        """Tell members that a participant joined or left."""
        self._send(system.presence(self._id(), event, participant.info, timestamp()), members)

    def violation(self, member: RoomMember, refusal: EnvelopeRefused, others: Iterable[RoomMember]) -> None:
        """Tell the others that a member tried to send a kind that it may not."""
        self._send(system.violation_notice(self._id(), member.id, refusal, timestamp()), others)

    def refuse(self, member: RoomMember, refusal: EnvelopeRefused) -> None:
        """Tell a member why its envelope has no effect."""
        self._send(self._error(member, refusal), (member,))

    def last_words(self, member: RoomMember, refusal: EnvelopeRefused) -> bytes:
        """The frame that tells a member why its connection ends."""
        return text_frame(self._error(member, refusal))

    def _error(self, member: RoomMember, refusal: EnvelopeRefused) -> bytes:
        participant = self._topic.participant(member.id)
        texts = () if participant is None else participant.capabilities.texts
        return system.error(self._id(), member.id, refusal, texts, timestamp())

    def _send(self, envelope: bytes, members: Iterable[RoomMember]) -> None:
        self._frames.send(text_frame(envelope), list(members))

    def _id(self) -> str:
        id_ = str(uuid.uuid4())
        self._topic.note(id_, system.GATEWAY, time.monotonic())
        return id_
