"""One topic while the hub runs: its participants' connections around the pure topic, which judges every envelope.

Envelopes pass byte for byte. A refusal is answered to its sender alone, counted, and recorded where it is a violation.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
from websockets.frames import CloseCode

from interlock.config.settings import Topic as TopicSettings
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.journal import Journal
from interlock.hub.rate_meter import Meter
from interlock.protocols.mcpx import system
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import Reason, Refusal
from interlock.protocols.mcpx.proposals import Proposal, State, ended
from interlock.protocols.mcpx.routing import Mode, Participant
from interlock.protocols.mcpx.topic import Topic
from interlock.rooms.counts import RoomCounts
from interlock.rooms.member import Member
from interlock.rooms.outgoing import Outgoing
from interlock.rooms.policy import ANONYMOUS, GUEST, rules_of
from interlock.rooms.resident import Resident
from interlock.transports.websocket import text_frame

LONGEST_PAUSE_S: Final = 0.25
"""After a refused flood nothing is read from the sender for this time, at most."""
MOST_METERS: Final = 20_000
_ENDINGS: Final = {
    Reason.REPLACED: CloseCode.POLICY_VIOLATION,
    Reason.TOO_SLOW: CloseCode.POLICY_VIOLATION,
    Reason.ACCESS_ENDED: CloseCode.POLICY_VIOLATION,
}


class Room:
    """The running topic."""

    def __init__(
        self,
        name: str,
        settings: TopicSettings,
        journal: Journal,
        check: Callable[[Member], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.counts = RoomCounts()
        self._journal = journal
        self._check = check
        """Raises Refusal for a participant whose envelopes cannot be judged now, or no longer."""
        self._topic = Topic(rules_of(settings))
        self._members: dict[str, Member] = {}
        self._residents: dict[str, Resident] = {}
        """Participants of the hub's own."""
        self._entering: dict[Member, Participant] = {}
        """Admitted, and not yet connected."""
        self._meters: dict[str, Meter] = {}
        self._outgoing = Outgoing(self._drop_slow)
        self._now: Callable[[], float] = time.monotonic

    @property
    def members(self) -> tuple[Member, ...]:
        """Everyone who is connected."""
        return tuple(self._members.values())

    @property
    def open_proposals(self) -> int:
        return self._topic.open_proposals

    @property
    def delivered(self) -> int:
        return self._outgoing.delivered

    def participant(self, id: str) -> Participant | None:
        """A connected participant; None if it is not there."""
        return self._topic.participant(id)

    def proposal(self, id: str) -> Proposal | None:
        """A proposal as it is now; None if it is unknown, or forgotten."""
        return self._topic.proposal(id, self._now())

    # A participant comes and goes.

    def admit(self, id: str, principal: Principal | None, capabilities: CapabilitySet, mode: Mode) -> Member:
        """Reserve a place for a connection that is being upgraded. Raises Refusal."""
        now = self._now()
        # A guest has a new id each time, so all guests together are counted as they come.
        joins = self._meter(GUEST if principal is None else id, now)
        if joins.wait_s(now) > 0:
            raise _rate_limited(joins, now)
        joins.take(now)
        present = len(self._members) + sum(one.id not in self._members for one in self._entering)
        if id not in self._members and present >= self.settings.participants:
            message = f"The topic has {present} participants."
            raise Refusal(Reason.TOPIC_FULL, message, "Wait until one leaves, or ask the operator for a larger topic.")
        participant = Participant(id, ANONYMOUS if principal is None else principal.id, capabilities, mode)
        member = Member(self, id, principal, self._meter(id, now), datetime.now(UTC))
        self._entering[member] = participant
        return member

    def enter(self, member: Member) -> None:
        """The participant is connected: welcome it, then tell all. A former connection of the same one ends."""
        participant = self._entering.pop(member)
        before = self._members.pop(member.id, None)
        known = self._topic.participant(member.id)
        try:
            self._topic.join(participant)
        except Refusal as refusal:
            self._expel(member, refusal)
            return
        self._members[member.id] = member
        self.counts.joined += 1
        if before is not None:
            message = f"{member.id!r} connected again, so this connection ends."
            self._expel(before, Refusal(Reason.REPLACED, message, "Use one connection for each participant and topic."))
        self._welcome(member.id)
        if known is None or known.capabilities != participant.capabilities:
            self._presence("join", participant)
        mode = participant.mode.value
        self._record("joined", member, details={"participant": member.id, "mode": mode, "again": before is not None})

    def lose(self, member: Member) -> None:
        """The connection has gone: tell all, unless a newer connection took its place."""
        if self._entering.pop(member, None) is not None or member.gone:
            return
        member.gone = True
        if self._members.get(member.id) is member:
            del self._members[member.id]
            participant = self._topic.leave(member.id)
            if participant is not None:
                self._presence("leave", participant)
        for reason, count in member.unrecorded().items():
            self._record_refusal(member, reason, "", None, count)
        if member.principal is None:
            self._meters.pop(member.id, None)
        self._record("left", member, details={"participant": member.id})

    def expel(self, member: Member, message: str, fix: str) -> None:
        """End a participant that may no longer be here. It is told why."""
        self._expel(member, Refusal(Reason.ACCESS_ENDED, message, fix))
        self.lose(member)

    # Envelopes.

    def receive(self, member: Member, data: bytes, binary: bool) -> bool:
        """Judge an envelope and pass it on, or answer why not. False: not now; the room resumes the connection."""
        if self._outgoing.full:
            self._outgoing.wait(member)
            return False
        try:
            self._take(member, data, binary)
        except Refusal as refusal:
            self._refuse(member, refusal, self._now())
            self._tell(member, refusal)
        return True

    def submit(self, member: Member, data: bytes) -> None:
        """Judge an envelope of a participant in this process, and pass it on. Raises Refusal, counted and recorded."""
        try:
            if self._outgoing.full:
                raise Refusal(Reason.UNAVAILABLE, "Too many envelopes wait in the topic.", "Send it again in a moment.")
            self._take(member, data, False)
            if member.gone:
                raise Refusal(Reason.ACCESS_ENDED, "You are no longer in the topic.", "Join it again.")
        except Refusal as refusal:
            self._refuse(member, refusal, self._now())
            raise

    def _take(self, member: Member, data: bytes, binary: bool) -> None:
        now = self._now()
        self._check(member)
        if member.gone:
            return
        envelope = self._read(member, data, binary, now)
        accepted = self._topic.accept(envelope, member.id, now)
        self.counts.passed += 1
        members, recipients = self._members, accepted.recipients
        if self._residents:
            recipients = tuple(id_ for id_ in recipients if id_ not in self._residents)
        self._outgoing.send(text_frame(data), [members[id_] for id_ in recipients])
        for resident in self._residents.values():
            # Later, since not everyone may have the envelope yet, and an answer comes after it.
            if resident.wants(envelope):
                asyncio.get_running_loop().call_soon(resident.receive, member, envelope, accepted.proposal)
        if accepted.proposal is not None:
            self._record_proposal(member, accepted.proposal)

    def report(self, member: Member, refusal: Refusal) -> None:
        """Tell a sender why its envelope, which was passed on, is not acted on. Counted and recorded as a refusal."""
        self._refuse(member, refusal, self._now())
        self._tell(member, refusal)

    # Participants of the hub's own.

    def seat(self, resident: Resident) -> None:
        """Let a participant of the hub's own take part. All are told."""
        # Its capabilities say what it sends; what it reads, it says for each envelope.
        participant = Participant(resident.id, resident.id, resident.capabilities, Mode.DIRECTED)
        self._topic.join(participant, internal=True)
        self._residents[resident.id] = resident
        self._presence("join", participant)

    def unseat(self, id: str) -> None:
        """Let a participant of the hub's own leave. Its open work is answered first."""
        self._residents[id].leave()
        del self._residents[id]
        participant = self._topic.leave(id)
        assert participant is not None
        self._presence("leave", participant)

    def close(self) -> None:
        """The topic has ended: the hub's own participants give up their work."""
        for resident in self._residents.values():
            resident.leave()
        self._residents.clear()

    @property
    def residents(self) -> tuple[str, ...]:
        """The ids of the hub's own participants."""
        return tuple(self._residents)

    def speak(self, id: str, data: bytes) -> None:
        """Pass on an envelope of a participant of the hub's own. Judged like any other, but for rates."""
        try:
            accepted = self._topic.accept(decode(data), id, self._now())
        except Refusal as refusal:
            self.counts.refused[refusal.reason] += 1
            return
        self.counts.passed += 1
        members = self._members
        self._outgoing.send(text_frame(data), [members[one] for one in accepted.recipients if one in members])

    def tick(self) -> None:
        """End proposals whose time has passed, and forget rates that nobody uses."""
        now = self._now()
        for proposal in self._topic.expire(now):
            self._record_proposal(None, proposal)
            for resident in self._residents.values():
                resident.on_expired(proposal)
            if (proposer := self._members.get(proposal.proposer)) is not None:
                self._tell(proposer, ended(proposal).about(proposal.id, proposal.kind.text))
        for id_ in [one for one, meter in self._meters.items() if one not in self._members and meter.is_idle(now)]:
            del self._meters[id_]

    # Changes at run time.

    def govern(self, settings: TopicSettings) -> None:
        """Apply other settings, from the next envelope on."""
        self.settings = settings
        self._topic.govern(rules_of(settings))
        for meter in self._meters.values():
            meter.limit(settings.rate)

    def grant(self, id: str, capabilities: CapabilitySet) -> None:
        """Give a connected participant other capabilities. It gets a fresh welcome, and all others learn of it."""
        participant = self._topic.participant(id)
        if participant is None or participant.capabilities == capabilities:
            return
        participant = msgspec.structs.replace(participant, capabilities=capabilities)
        self._topic.join(participant)
        self._welcome(id)
        self._presence("join", participant)

    def _read(self, member: Member, data: bytes, binary: bool, now: float) -> Envelope:
        late = member.meter.wait_s(now)
        if late <= 0:
            member.meter.take(now)
        if binary:
            raise Refusal(Reason.NOT_JSON, "The message is binary.", "Send envelopes as text messages.")
        envelope = decode(data)
        if late > 0:
            member.pause(min(late, LONGEST_PAUSE_S))
            raise _rate_limited(member.meter, now).about(envelope.id, envelope.kind.text)
        return envelope

    def _refuse(self, member: Member, refusal: Refusal, now: float) -> None:
        self.counts.refused[refusal.reason] += 1
        if refusal.reason in (Reason.RATE_LIMITED, Reason.TOO_LARGE) or member.meter.wait_s(now) > 0:
            member.pause(LONGEST_PAUSE_S)
        if self.settings.announce_violations and refusal.reason is Reason.CAPABILITY_VIOLATION:
            notice = system.violation_notice(self._id(), member.id, refusal, _timestamp())
            self._broadcast(notice, (one for one in self._members.values() if one is not member))
        count = member.count_refusal(refusal.reason, now)
        if count:
            self._record_refusal(member, refusal.reason, refusal.message, refusal.attempted_kind, count)

    def _welcome(self, id: str) -> None:
        participants = self._topic.participants
        you = self._topic.participant(id)
        assert you is not None
        others = tuple(one.info for one in participants if one.id != id)
        self._broadcast(system.welcome(self._id(), you.info, others, _timestamp()), (self._members[id],))

    def _presence(self, event: system.PresenceEvent, participant: Participant) -> None:
        self._broadcast(system.presence(self._id(), event, participant.info, _timestamp()), self._members.values())

    def _tell(self, member: Member, refusal: Refusal) -> None:
        self._broadcast(self._error(member, refusal), (member,))

    def _error(self, member: Member, refusal: Refusal) -> bytes:
        participant = self._topic.participant(member.id)
        texts = () if participant is None else participant.capabilities.texts
        return system.error(self._id(), member.id, refusal, texts, _timestamp())

    def _broadcast(self, envelope: bytes, members: Iterable[Member]) -> None:
        self._outgoing.send(text_frame(envelope), list(members))

    def _id(self) -> str:
        """The id of an envelope of the gateway's own."""
        id_ = str(uuid.uuid4())
        self._topic.note(id_, system.GATEWAY, self._now())
        return id_

    def _drop_slow(self, member: Member) -> None:
        if member.gone:
            return
        self.counts.dropped += 1
        message = f"{member.id!r} left too much unread."
        self._expel(member, Refusal(Reason.TOO_SLOW, message, "Read what arrives, or connect with mode=directed."))
        self._record_refusal(member, Reason.TOO_SLOW, message, None, 1)
        self.lose(member)

    def _expel(self, member: Member, refusal: Refusal) -> None:
        """Tell a participant why its connection ends, and end it."""
        self.counts.refused[refusal.reason] += 1
        last = text_frame(self._error(member, refusal))
        member.connection.close(_ENDINGS.get(refusal.reason, CloseCode.TRY_AGAIN_LATER), refusal.reason.value, last)

    def _meter(self, id: str, now: float) -> Meter:
        meter = self._meters.get(id)
        if meter is None:
            if len(self._meters) >= MOST_METERS:
                raise Refusal(Reason.RATE_LIMITED, "Too many participants came lately.", "Come back in a minute.")
            meter = self._meters[id] = Meter("participant", self.settings.rate)
        return meter

    # The audit log.

    def _record(self, event: str, member: Member, details: dict[str, object], rule: str = "", reason: str = "") -> None:
        by = member.principal or NOBODY
        self._journal.room(event, by, self.name, rule=rule, reason=reason, details=details)

    def _record_refusal(self, member: Member, reason: Reason, message: str, kind: str | None, count: int) -> None:
        details: dict[str, object] = {"participant": member.id, "count": count}
        if kind is not None:
            details["kind"] = kind[:256]
        self._record("refused", member, details, rule=reason.value, reason=message[:256])

    def _record_proposal(self, member: Member | None, proposal: Proposal) -> None:
        by = NOBODY if member is None or member.principal is None else member.principal
        details: dict[str, object] = {
            "proposal": proposal.id,
            "proposer": proposal.proposer,
            "kind": proposal.kind.text[:256],
        }
        if proposal.state is not State.OPEN and member is not None:
            details["by"] = member.id
        if proposal.request_id is not None:
            details["request"] = proposal.request_id
        self._journal.room(f"proposal_{proposal.state.value}", by, self.name, details=details)


def _rate_limited(meter: Meter, now: float) -> Refusal:
    most, seconds = meter.full(now)
    message = f"You sent {most} envelopes in {seconds} seconds."
    return Refusal(Reason.RATE_LIMITED, message, f"Send again in {meter.wait_s(now):.1f} s.")


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
