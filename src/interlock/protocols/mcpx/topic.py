"""The state of one topic: its participants, the used envelope ids, and its proposals. Pure.

`accept` judges an envelope by these checks, in this order: identity, capability, correlation, id, payload (only in
strict topics), proposal. Callers pass the time.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, why_bad_participant
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.ledger import DEFAULT_LEDGER, LedgerBounds, ProposalLedger
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.proposals import Proposal
from interlock.protocols.mcpx.recent import RecentValues
from interlock.protocols.mcpx.responses import OpenRequest, check_response, open_request
from interlock.protocols.mcpx.routing import TopicParticipant, recipients
from interlock.protocols.mcpx.system import capability_violation


class TopicRules(msgspec.Struct, frozen=True):
    """The rules of a topic."""

    strict: bool = False
    """Whether kinds must match their payload. If off, the gateway reads no payload (MCPx, Gateway Enforcement)."""
    arbitrate: bool = True
    """Whether the gateway arbitrates proposals. If off (`proposals = "agents"`), withdrawing and rejecting need a
    capability."""
    participants: int = 256
    ids_per_sender: int = 4_096
    ids: int = 65_536
    ids_for: float = 300.0
    """Seconds for which an id cannot be used again."""
    requests_per_sender: int = 256
    requests: int = 4_096
    """Requests whose responses a strict topic can check."""
    ledger: LedgerBounds = DEFAULT_LEDGER


DEFAULT_RULES: Final = TopicRules()
MAX_BROADCASTS: Final = 16
"""Senders whose recipients are cached."""


class AcceptedEnvelope(msgspec.Struct, frozen=True):
    """Where an accepted envelope goes, and its effect on a proposal."""

    recipients: tuple[str, ...]
    proposal: Proposal | None = None
    """The proposal that it opened or ended."""
    proposer: str | None = None
    """The proposer of the proposal whose fulfilment it answers."""


class Topic:
    """The state of one topic."""

    __slots__ = ("_broadcast_to", "_ids", "_ledger", "_participants", "_requests", "_rules")

    def __init__(self, rules: TopicRules = DEFAULT_RULES) -> None:
        self._rules = rules
        self._participants: dict[str, TopicParticipant] = {}
        self._broadcast_to: dict[str, tuple[str, ...]] = {}
        """By sender, the recipients of a broadcast, until somebody comes, changes or leaves."""
        self._ids: RecentValues[bool] = RecentValues(rules.ids_for, rules.ids_per_sender, rules.ids)
        self._requests: RecentValues[OpenRequest] = RecentValues(
            float("inf"), rules.requests_per_sender, rules.requests
        )
        self._ledger = ProposalLedger(rules.ledger)

    def apply_rules(self, rules: TopicRules) -> None:
        """Apply other rules from the next envelope on. The bounds of its caches do not change."""
        self._rules = rules

    @property
    def open_proposals(self) -> int:
        """How many proposals are open, or not yet seen to have expired."""
        return len(self._ledger)

    @property
    def participants(self) -> tuple[TopicParticipant, ...]:
        """All participants, in the order of joining."""
        return tuple(self._participants.values())

    def participant(self, id: str) -> TopicParticipant | None:
        """The participant with an id; None if it is not in the topic."""
        return self._participants.get(id)

    def join(self, participant: TopicParticipant, *, internal: bool = False) -> bool:
        """Add or change a participant. Returns whether it is new. Raises `EnvelopeRefused`.

        An internal participant, such as the inbox or a server, has no credential and may have a reserved id.
        """
        if not internal and (why := why_bad_participant(participant.id)) is not None:
            message = f"{participant.id[:40]!r} cannot join: {why}."
            raise EnvelopeRefused(
                RefusalReason.INVALID_PARTICIPANT, message, "Map the token to another participant id."
            )
        new = participant.id not in self._participants
        if new and len(self._participants) >= self._rules.participants:
            message = f"The topic has {len(self._participants)} participants."
            raise EnvelopeRefused(
                RefusalReason.TOPIC_FULL, message, "Wait until one leaves, or ask the operator for a larger topic."
            )
        self._participants[participant.id] = participant
        self._broadcast_to.clear()
        return new

    def leave(self, id: str) -> TopicParticipant | None:
        """Remove a participant. Its open proposals stay until they end."""
        self._broadcast_to.clear()
        return self._participants.pop(id, None)

    def note(self, envelope_id: str, sender: str, now: float) -> None:
        """Remember the id of an envelope that the gateway made itself."""
        self._ids.add(envelope_id, True, sender, now)

    def accept(self, envelope: Envelope, sender: str, now: float) -> AcceptedEnvelope:
        """Judge an envelope that came on a participant's connection. Raises `EnvelopeRefused`."""
        try:
            if (participant := self._participants.get(sender)) is None:
                raise EnvelopeRefused(
                    RefusalReason.INVALID_PARTICIPANT, f"{sender!r} is not in this topic.", "Join it again."
                )
            return self._accept(envelope, participant, now)
        except EnvelopeRefused as refusal:
            raise refusal.about(envelope.id, envelope.kind.text) from None

    def proposal(self, id: str, now: float) -> Proposal | None:
        """The current state of a proposal; None if it is unknown or forgotten."""
        return self._ledger.find(id, now)

    def expire(self, now: float) -> list[Proposal]:
        """End the proposals whose time has passed. Returns each of them once."""
        return self._ledger.expire(now)

    def _accept(self, envelope: Envelope, sender: TopicParticipant, now: float) -> AcceptedEnvelope:
        self._check_sender(envelope, sender)
        _check_correlation(envelope)
        if self._ids.get(envelope.id, now) or self._ledger.find(envelope.id, now) is not None:
            message = f"The id {envelope.id!r} was used in this topic already."
            raise EnvelopeRefused(
                RefusalReason.DUPLICATE_ID, message, "Make a new id for every envelope; a UUID is a good one."
            )
        request = self._check_payload(envelope, now) if self._rules.strict else None
        proposal = self._arbitrate(envelope, sender, now) if self._rules.arbitrate else None
        self._ids.add(envelope.id, True, sender.id, now)
        if request is not None:
            self._requests.add(envelope.id, request, sender.id, now)
        proposer = self._ledger.proposer_answered_by(envelope, now) if envelope.kind.type == kinds.RESPONSE else None
        return AcceptedEnvelope(self._recipients(envelope, proposer), proposal, proposer)

    def _recipients(self, envelope: Envelope, proposer: str | None) -> tuple[str, ...]:
        """The recipients of an envelope. Those of a broadcast are cached for each sender."""
        sender, everyone = envelope.sender, self._participants.values()
        if envelope.to:
            return recipients(everyone, sender, envelope.to, proposer)
        found = self._broadcast_to.get(sender)
        if found is None:
            if len(self._broadcast_to) >= MAX_BROADCASTS:
                self._broadcast_to.clear()
            found = self._broadcast_to[sender] = recipients(everyone, sender, ())
        return found

    def _check_sender(self, envelope: Envelope, sender: TopicParticipant) -> None:
        kind = envelope.kind
        if envelope.sender != sender.id:
            message = f"`from` is {envelope.sender!r}; you are {sender.id!r}."
            raise EnvelopeRefused(
                RefusalReason.FROM_MISMATCH, message, f'Write "from": "{sender.id}", as `system/welcome` says.'
            )
        if self._rules.arbitrate and kind.type in (kinds.WITHDRAW, kinds.REJECT):
            return
        if not sender.capabilities.covers(kind.text):
            raise capability_violation(kind.text, reserved=kind.reserved)

    def _check_payload(self, envelope: Envelope, now: float) -> OpenRequest | None:
        operation = check_payload(envelope)
        if envelope.kind.type == kinds.RESPONSE:
            request = self._requests.get(envelope.correlation_id or "", now)
            if request is None:
                message = f"This topic remembers no request {envelope.correlation_id!r}."
                raise EnvelopeRefused(
                    RefusalReason.UNKNOWN_REQUEST, message, "Name the request envelope's `id` as `correlation_id`."
                )
            check_response(envelope, operation, request)
        return open_request(envelope, operation)

    def _arbitrate(self, envelope: Envelope, sender: TopicParticipant, now: float) -> Proposal | None:
        match envelope.kind.type:
            case kinds.PROPOSAL:
                return self._ledger.propose(envelope, sender.principal_id, now)
            case kinds.REQUEST:
                return self._ledger.fulfil(envelope, sender.principal_id, now)
            case kinds.WITHDRAW:
                return self._ledger.withdraw(envelope, now)
            case kinds.REJECT:
                return self._ledger.reject(envelope, sender.principal_id, sender.capabilities, now)
        return None


def _check_correlation(envelope: Envelope) -> None:
    type_ = envelope.kind.type
    if type_ == kinds.PROPOSAL and envelope.correlation_id is not None:
        message = "A proposal starts a new workflow and has no `correlation_id`."
        raise EnvelopeRefused(RefusalReason.CORRELATION_FORBIDDEN, message, "Leave `correlation_id` out.")
    if type_ in _REFERRING and envelope.correlation_id is None:
        what = "request" if type_ == kinds.RESPONSE else "proposal"
        message = f"`{type_}` has no `correlation_id`."
        raise EnvelopeRefused(
            RefusalReason.CORRELATION_MISSING, message, f"Name the {what}'s envelope id as `correlation_id`."
        )


_REFERRING: Final = frozenset({kinds.RESPONSE, kinds.WITHDRAW, kinds.REJECT})
