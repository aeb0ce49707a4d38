"""One topic while the hub runs: connections of participants around `protocols.mcpx.topic`, which judges every envelope.

Envelopes pass byte for byte. Only its sender learns of a refusal, which is counted and, for a violation, recorded.
`admissions.py` decides who may join, `gateway_messages.py` writes the gateway's envelopes, and
`internal_participants.py` has the hub's own participants.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
from websockets.frames import CloseCode

from interlock.config.settings import TopicSettings
from interlock.hub.auth.principals import SERVER, Principal
from interlock.hub.journal import Journal
from interlock.protocols.mcpx import system
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.proposals import Proposal, ended
from interlock.protocols.mcpx.routing import ReceiveMode, TopicParticipant
from interlock.protocols.mcpx.topic import AcceptedEnvelope, Topic
from interlock.rooms.admissions import Admissions, Reservation
from interlock.rooms.audit import RoomAudit
from interlock.rooms.counts import RoomCounts
from interlock.rooms.frame_queue import FrameQueue
from interlock.rooms.gateway_messages import GatewayMessages
from interlock.rooms.given_texts import GivenTexts
from interlock.rooms.history import Positions, TopicHistory
from interlock.rooms.internal_participants import InternalParticipant, InternalParticipants
from interlock.rooms.listener_lists import EnvelopeRecipients, ListenerLists
from interlock.rooms.member import MAX_PAUSE_S, RoomMember
from interlock.rooms.policy import ANONYMOUS, rules_of
from interlock.transports.websocket import text_frame
from interlock.transports.websocket_frames import MessageOutcome

_FINAL: Final = (RefusalReason.REPLACED, RefusalReason.TOO_SLOW, RefusalReason.ACCESS_ENDED)


def clock_s() -> float:
    """The monotonic clock, by which proposals and reserved places expire."""
    return time.monotonic()


class Room:
    """The running topic."""

    def __init__(
        self,
        name: str,
        settings: TopicSettings,
        journal: Journal,
        check: Callable[[RoomMember], None],
        given_texts: GivenTexts,
        history: TopicHistory | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.counts = RoomCounts()
        self._audit = RoomAudit(journal, name)
        self._check = check
        """Checks a participant before each envelope. Raises EnvelopeRefused while envelopes cannot be judged."""
        self._given_texts = given_texts
        self._topic = Topic(rules_of(settings))
        self._members: dict[str, RoomMember] = {}
        self._internal = InternalParticipants()
        self._admissions = Admissions(settings)
        self._frames = FrameQueue(self.drop_slow)
        self._gateway = GatewayMessages(self._topic, self._frames, given_texts)
        self._listeners = ListenerLists()
        self._history = history
        self._positions = Positions()

    @property
    def members(self) -> tuple[RoomMember, ...]:
        """Everyone who is connected."""
        return tuple(self._members.values())

    @property
    def participants(self) -> tuple[TopicParticipant, ...]:
        """All participants, including the hub's own."""
        return self._topic.participants

    @property
    def activity(self) -> int:
        """A number that grows with every envelope and presence."""
        return self.counts.passed + self.counts.presences

    @property
    def open_proposals(self) -> int:
        return self._topic.open_proposals

    @property
    def delivered(self) -> int:
        return self._frames.delivered

    @property
    def undelivered(self) -> int:
        """Envelopes that wait for their delivery."""
        return self._frames.waiting

    def participant(self, id: str) -> TopicParticipant | None:
        """A connected participant; None if it is not there."""
        return self._topic.participant(id)

    def proposal(self, id: str) -> Proposal | None:
        """A proposal as it is now; None if it is unknown, or forgotten."""
        return self._topic.proposal(id, clock_s())

    def remaining_s(self, proposal: Proposal) -> float:
        """How long a proposal stays open."""
        return proposal.expires_at - clock_s()

    # A participant comes and goes.

    def admit(
        self,
        id: str,
        principal: Principal | None,
        capabilities: CapabilitySet,
        mode: ReceiveMode,
        since: str | None = None,
    ) -> RoomMember:
        """Reserve a place for a connection, which reads from the cursor `since` on. Raises EnvelopeRefused."""
        self._check_crowd()
        participant = TopicParticipant(id, ANONYMOUS if principal is None else principal.id, capabilities, mode)
        place = Reservation(participant, since)
        return self._admissions.reserve(self, principal, place, self._members, clock_s())

    def enter(self, member: RoomMember) -> None:
        """Welcome a participant that has connected, then tell all. An earlier connection of it ends."""
        participant, since = self._admissions.take(member)
        try:
            self._check_crowd()
        except EnvelopeRefused as refusal:
            self._expel(member, refusal)
            return
        before = self._members.pop(member.id, None)
        known = self._topic.participant(member.id)
        try:
            self._topic.join(participant)
        except EnvelopeRefused as refusal:
            self._expel(member, refusal)
            return
        self._members[member.id] = member
        self._listeners.clear()
        self.counts.joined += 1
        if before is not None:
            message = f"{member.id!r} connected again, so this connection ends."
            self._expel(
                before,
                EnvelopeRefused(RefusalReason.REPLACED, message, "Use one connection for each participant and topic."),
            )
        if since is None:
            self._gateway.welcome(member, self._history)
        else:
            self._gateway.welcome_back(member, participant, self._history, since)
        if known is None or known.capabilities != participant.capabilities:
            self._presence("join", participant)
        mode = participant.mode.value
        self._audit.record("joined", member, {"participant": member.id, "mode": mode, "again": before is not None})

    def lose(self, member: RoomMember) -> None:
        """Remove a member whose connection is lost, and tell all, unless a newer connection replaced it."""
        if self._admissions.give_up(member) or member.gone:
            return
        member.gone = True
        if self._members.get(member.id) is member:
            del self._members[member.id]
            self._listeners.clear()
            participant = self._topic.leave(member.id)
            if participant is not None:
                self._presence("leave", participant)
        for reason, count in member.unrecorded().items():
            self._audit.refusal(member, reason, "", None, count)
        self._admissions.forget_guest(member)
        self._audit.record("left", member, {"participant": member.id})

    def expel(self, member: RoomMember, message: str, fix: str) -> None:
        """End the connection of a participant that may no longer take part, and tell it why."""
        self._expel(member, EnvelopeRefused(RefusalReason.ACCESS_ENDED, message, fix))
        self.lose(member)

    # Envelopes.

    def receive(self, member: RoomMember, data: bytes, binary: bool) -> MessageOutcome:
        """Judge an envelope and pass it on, or tell the sender why not. LATER: the room resumes the connection."""
        if self._frames.full:
            self._frames.wait(member)
            return MessageOutcome.LATER
        try:
            self._take(member, data, binary)
        except EnvelopeRefused as refusal:
            self.report(member, refusal)
            return MessageOutcome.REFUSED
        return MessageOutcome.ACCEPTED

    def submit(self, member: RoomMember, data: bytes) -> None:
        """Judge an envelope of a participant in this process, and pass it on. A refusal is counted and raised."""
        try:
            if self._frames.full:
                raise EnvelopeRefused(
                    RefusalReason.UNAVAILABLE, "Too many envelopes wait in the topic.", "Send it again in a moment."
                )
            self._take(member, data, False)
            if member.gone:
                raise EnvelopeRefused(RefusalReason.ACCESS_ENDED, "You are no longer in the topic.", "Join it again.")
        except EnvelopeRefused as refusal:
            self._refuse(member, refusal, clock_s())
            raise

    def _take(self, member: RoomMember, data: bytes, binary: bool) -> None:
        now = clock_s()
        self._check(member)
        if member.gone:
            return
        envelope = member.read(data, binary, now)
        accepted = self._topic.accept(envelope, member.id, now)
        listeners = self._listeners_of(envelope, accepted)
        hold = self._given_texts.note(listeners, member.principal, self._frames)
        self._frames.send_soon(text_frame(envelope.raw), listeners, hold)
        self._internal.pass_on(member, envelope, accepted.proposal)
        if accepted.proposal is not None:
            self._audit.proposal(member, accepted.proposal)

    def report(self, member: RoomMember, refusal: EnvelopeRefused) -> None:
        """Tell a sender why its envelope is refused or has no effect. Counts and records the refusal."""
        self._refuse(member, refusal, clock_s())
        self._gateway.refuse(member, refusal)

    # The hub's own participants.

    def add_internal(self, internal: InternalParticipant) -> None:
        """Add one of the hub's own participants, and tell all."""
        # The capabilities limit what it sends. `wants` decides which envelopes it reads, whatever its mode.
        participant = TopicParticipant(internal.id, internal.id, internal.capabilities, ReceiveMode.DIRECTED)
        self._topic.join(participant, internal=True)
        self._internal.add(internal)
        self._presence("join", participant)

    def remove_internal(self, id: str) -> None:
        """Remove one of the hub's own participants, after it answered its open requests."""
        self._internal.remove(id)
        participant = self._topic.leave(id)
        assert participant is not None
        self._presence("leave", participant)

    def close(self) -> None:
        """Close the hub's own participants, because the topic has ended."""
        self._internal.close()

    @property
    def internal_ids(self) -> tuple[str, ...]:
        """The ids of the hub's own participants."""
        return self._internal.ids

    def answer(self, id: str, data: bytes, asker: Principal | None) -> bool:
        """Pass on the answer of a tool server of the hub. It is judged like others, but has no rate. False: refused."""
        try:
            envelope = decode(data)
            accepted = self._topic.accept(envelope, id, clock_s())
        except EnvelopeRefused as refusal:
            self.counts.refused[refusal.reason] += 1
            return False
        listeners = self._listeners_of(envelope, accepted)
        hold = self._given_texts.note_result(listeners, asker, id.removeprefix(SERVER), self._frames)
        self._frames.send_soon(text_frame(envelope.raw), listeners, hold)
        return True

    def _listeners_of(self, envelope: Envelope, accepted: AcceptedEnvelope) -> EnvelopeRecipients:
        """Count an accepted envelope, and add it to the history. Returns the members who get it."""
        self.counts.passed += 1
        if self._history is not None:
            self._history.add(envelope, accepted.proposer)
        return self._listeners.find(self._members, accepted.recipients, envelope.sender)

    def tick(self) -> None:
        """End expired proposals, send new cursors, and forget unused rates."""
        now = clock_s()
        for proposal in self._topic.expire(now):
            self._audit.proposal(None, proposal)
            self._internal.on_expired(proposal)
            if (proposer := self._members.get(proposal.proposer)) is not None:
                self._gateway.refuse(proposer, ended(proposal).about(proposal.id, proposal.kind.text))
        if self._history is not None and not self._frames.full:
            for member in self._positions.due(self._history.offset, self._members.values()):
                self._gateway.cursor(member, self._history)
        self._admissions.forget_idle(self._members, now)

    # Changes at run time.

    def apply_settings(self, settings: TopicSettings, history: TopicHistory | None) -> None:
        """Apply other settings, from the next envelope on."""
        self.settings = settings
        self._history = history
        self._topic.apply_rules(rules_of(settings))
        if self._history is not None:
            self._history.bound(settings.history)
        self._admissions.apply_settings(settings)

    def route(self, id: str, mode: ReceiveMode) -> None:
        """Set the mode of a connected participant, from the next envelope on."""
        participant = self._topic.participant(id)
        if participant is not None:
            self._topic.join(msgspec.structs.replace(participant, mode=mode))

    def grant(self, id: str, capabilities: CapabilitySet) -> None:
        """Change the capabilities of a connected participant. It gets a new welcome, and all others are told."""
        participant = self._topic.participant(id)
        if participant is None or participant.capabilities == capabilities:
            return
        participant = msgspec.structs.replace(participant, capabilities=capabilities)
        self._topic.join(participant)
        self._gateway.welcome(self._members[id], self._history)
        self._presence("join", participant)

    def _refuse(self, member: RoomMember, refusal: EnvelopeRefused, now: float) -> None:
        self.counts.refused[refusal.reason] += 1
        if refusal.reason in (RefusalReason.RATE_LIMITED, RefusalReason.TOO_LARGE) or member.meter.wait_s(now) > 0:
            member.pause(MAX_PAUSE_S)
        if self.settings.announce_violations and refusal.reason is RefusalReason.CAPABILITY_VIOLATION:
            others = (one for one in self._members.values() if one is not member)
            self._gateway.violation(member, refusal, others)
        count = member.count_refusal(refusal.reason, now)
        if count:
            self._audit.refusal(member, refusal.reason, refusal.message, refusal.attempted_kind, count)

    def _check_crowd(self) -> None:
        """Refuse a participant while too many frames wait in the topic. Raises EnvelopeRefused."""
        if self._frames.is_crowded:
            message = "Too many envelopes wait in the topic: the hub's store is slow."
            raise EnvelopeRefused(RefusalReason.UNAVAILABLE, message, "Join again in a moment.")

    def _presence(self, event: system.PresenceEvent, participant: TopicParticipant) -> None:
        self.counts.presences += 1
        self._gateway.presence(event, participant, self._members.values())

    def drop_slow(self, member: RoomMember) -> None:
        """End the connection of a participant that left too much unread."""
        if member.gone:
            return
        self.counts.dropped += 1
        message = f"{member.id!r} left too much unread."
        self._expel(
            member,
            EnvelopeRefused(RefusalReason.TOO_SLOW, message, "Read what arrives, or connect with mode=directed."),
        )
        self._audit.refusal(member, RefusalReason.TOO_SLOW, message, None, 1)
        self.lose(member)

    def _expel(self, member: RoomMember, refusal: EnvelopeRefused) -> None:
        """Tell a participant why its connection ends, and end it."""
        self.counts.refused[refusal.reason] += 1
        last = self._gateway.last_words(member, refusal)
        code = CloseCode.POLICY_VIOLATION if refusal.reason in _FINAL else CloseCode.TRY_AGAIN_LATER
        member.connection.close(code, refusal.reason.value, last)
