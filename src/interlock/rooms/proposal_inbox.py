"""`system:inbox` in a topic: opens an approval request for every proposal, which a person can fulfil or reject.

Rules: the inbox offers only proposals whose kind and payload agree. A fulfilment from the inbox is the person's own
request, with the person's own rights in the topic and in the hub. A learned rule acts with the current rights of the
person who made it. `proposal_requests.py` makes the text that a person sees, `fulfilment.py` says who may fulfil.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from interlock.hub.admin.rooms import ProposalAnswer
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.full_view import by_size, full_view
from interlock.hub.approvals.states import DecisionEvent, DecisionState
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.proposals import Proposal, ProposalState
from interlock.rooms.fulfilment import check_fulfiller, find_person
from interlock.rooms.ordered_work import OrderedWork
from interlock.rooms.proposal_requests import OpenProposal, why_ended
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.local_participant import LocalParticipant
    from interlock.rooms.member import RoomMember
    from interlock.rooms.room import Room

ANSWER_S: Final = 30.0
"""How long a person who fulfilled a proposal waits for the response. The room gets it in any case."""
MAX_NAMED: Final = 20
_log = logging.getLogger(__name__)


class InboxTopics(Protocol):
    """The topics, as an inbox uses them."""

    def capabilities(self, topic: str, id: str, principal: Principal | None) -> CapabilitySet:
        """The capabilities of a participant, connected or not."""

    def join_locally(self, topic: str, by: Principal) -> LocalParticipant:
        """Join a topic in this process, beside other connections of the same principal. Raises Fault."""


class ProposalInbox:
    """The inbox as a participant of one topic (`internal_participants.InternalParticipant`)."""

    id = system.INBOX
    capabilities = CapabilitySet(())

    def __init__(self, room: Room, topics: InboxTopics, hub_app: HubApp) -> None:
        self._room = room
        self._topics = topics
        self._hub_app = hub_app
        self._inbox = hub_app.inbox
        self._entries: dict[str, OpenProposal] = {}
        """By proposal. Each is as old as the topic lets a proposal become."""
        self._work = OrderedWork(f"the inbox of the room {room.name}")
        """The store takes time, and an approval request is stored before it ends."""

    def wants(self, envelope: Envelope) -> bool:
        """Whether an envelope is a proposal, or may end one."""
        type_ = envelope.kind.type
        return type_ in (kinds.PROPOSAL, kinds.WITHDRAW, kinds.REJECT) or (
            type_ == kinds.REQUEST and envelope.correlation_id is not None
        )

    def receive(self, sender: RoomMember, envelope: Envelope, proposal: Proposal | None) -> None:
        """Offer a new proposal, or end the approval request of one that has ended."""
        if proposal is None:
            return
        if proposal.state is not ProposalState.OPEN:
            self._end(proposal, why_ended(proposal, envelope))
            return
        try:
            check_payload(envelope)
        except EnvelopeRefused as refusal:
            # The kind does not show all of the payload, so a person could not judge it.
            self._room.report(sender, refusal)
            return
        entry = self._entries[envelope.id] = OpenProposal(envelope, sender.principal)
        self._work.add(self._offer(entry, self._room.remaining_s(proposal)))

    def on_expired(self, proposal: Proposal) -> None:
        """End the approval request of an expired proposal."""
        self._end(proposal, "nobody fulfilled it in time")

    def leave(self) -> None:
        """End all approval requests, because the topic has ended or no longer arbitrates."""
        for entry in self._entries.values():
            self._work.add(self._close(entry, DecisionEvent.CHANGE, "the topic was closed"))
        self._entries.clear()

    @property
    def writing(self) -> asyncio.Task[None] | None:
        """The task that writes approval requests of proposals; None while it has no work."""
        return self._work.running

    async def close(self) -> None:
        """Stop, because the hub stops. The next start ends the approval requests of its proposals."""
        await self._work.close()

    async def answer(self, by: Principal, decision: Decision, given: ProposalAnswer, *, wait: bool) -> Envelope | None:
        """Fulfil or reject a proposal in a person's name. Returns the response, with `wait` and if one came in time."""
        entry = self._entries.get(decision.request.proposal)
        if entry is None or entry.decision != decision.id:
            raise Fault("INVALID_PARAMS", f"the proposal of approval request {decision.id} has ended")
        kind = entry.envelope.kind
        capabilities = self._topics.capabilities(self._room.name, by.id, by)
        check_fulfiller(self._room, entry.envelope.id, by, capabilities)
        to = given.to or entry.envelope.to
        if given.answer != "no" and not to:
            hint = f"name a participant, as in `interlock rooms fulfil {self._room.name} ID --to server:NAME`"
            raise Fault("INVALID_PARAMS", "the proposal names nobody who should carry it out", hint=hint)
        if given.answer != "no" and not any(self._room.participant(id_) for id_ in to):
            raise self._absent(to)
        me = self._topics.join_locally(self._room.name, by)
        try:
            answered = await self._inbox.answer(decision.id, given.answer, by, given.where, given.view, given.reason)
            try:
                if given.answer == "no":
                    reason = {"reason": given.reason} if given.reason else {}
                    me.say(kinds.REJECT, reason, (), entry.envelope.id)
                    return None
                request = me.say(f"{kinds.REQUEST}:{kind.operation}", entry.request(), to, entry.envelope.id)
            except EnvelopeRefused as refusal:
                await self._refused(answered, refusal)
                raise Fault("INVALID_PARAMS", refusal.message, hint=refusal.fix) from None
            await self._inbox.use(decision.id)
            return await me.response(request, to, ANSWER_S) if wait else None
        finally:
            me.leave()

    def _absent(self, to: Sequence[str]) -> Fault:
        """Refuse a fulfilment that nobody in the topic would answer. The approval request stays open."""
        here = ", ".join(one.id for one in self._room.participants[:MAX_NAMED] if one.id != self.id) or "nobody"
        hint = f"name somebody who is there: `interlock rooms fulfil {self._room.name} ID --to PARTICIPANT`"
        return Fault("INVALID_PARAMS", f"{', '.join(to)} is not in {self._room.name}; here: {here}", hint=hint)

    async def _refused(self, answered: Decision, refusal: EnvelopeRefused) -> None:
        elsewhere = refusal.reason is RefusalReason.PROPOSAL_ALREADY_FULFILLED
        event = DecisionEvent.FULFIL_ELSEWHERE if elsewhere else DecisionEvent.CHANGE
        await self._inbox.end(answered.id, event, refusal.message)

    async def _offer(self, entry: OpenProposal, valid_s: float) -> None:
        shown, hub = entry.shown(), self._hub_app
        view = await full_view(shown)
        if not view:
            return  # The view is too long for a person to read, so no request is made.
        make = partial(entry.approval_request, self._room.name, hub.node)
        made = await by_size(len(entry.envelope.payload), make)
        # A rule acts as its person, whom no taint stops. So it must not act for a tainted proposer.
        tainted = hub.gate_chain.is_tainted(entry.proposer or LOCAL_AGENT)
        definition = entry.definition(shown, hub.catalog)
        approval_request = msgspec.structs.replace(made, fingerprint=definition, every_time=tainted)
        decision = await self._inbox.ask(approval_request, view=view, valid_s=valid_s)
        entry.decision = decision.id
        rule = self._inbox.rule_for(approval_request)
        maker = None if rule is None else find_person(self._hub_app, rule.made_by)
        if maker is None:
            return
        try:
            await self.answer(maker, decision, ProposalAnswer("once", "rule", decision.request.view), wait=False)
        except Fault as fault:
            _log.info("a rule could not fulfil a proposal: %s", fault.message)

    def _end(self, proposal: Proposal, why: str) -> None:
        entry = self._entries.pop(proposal.id, None)
        if entry is None:
            return
        event = {
            ProposalState.FULFILLED: DecisionEvent.FULFIL_ELSEWHERE,
            ProposalState.EXPIRED: DecisionEvent.EXPIRE,
        }.get(proposal.state, DecisionEvent.CHANGE)
        self._work.add(self._close(entry, event, why))

    async def _close(self, entry: OpenProposal, event: DecisionEvent, why: str) -> None:
        """End the approval request, unless its answer ended the proposal."""
        if entry.decision and self._inbox.get(entry.decision).state is DecisionState.OPEN:
            await self._inbox.end(entry.decision, event, why)
