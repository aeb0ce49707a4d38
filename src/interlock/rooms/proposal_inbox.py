"""`system:inbox` in a topic: every proposal is also an approval request, which a person can fulfil or reject.

Rules: the inbox offers only proposals whose kind and payload agree. A fulfilment from the inbox is the fulfiller's own
request, under the fulfiller's own rights in the topic and in the hub. A learned rule acts with the current rights of
the person who made it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from interlock.hub.admin.rooms import ProposalAnswer
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.full_view import full_view
from interlock.hub.approvals.states import DecisionEvent, DecisionState
from interlock.hub.auth.principals import TOKEN, Principal
from interlock.hub.calls.pipeline.call_approvals import summary_of
from interlock.hub.catalog.views import View
from interlock.judge.fingerprints import fingerprint
from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import Reason, Refusal
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.proposals import Proposal, State
from interlock.rooms.fulfilment import check_fulfiller, find_person
from interlock.rooms.server_participant import PREFIX
from interlock.store import StoreError
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.local_participant import LocalParticipant
    from interlock.rooms.member import Member
    from interlock.rooms.room import Room

ANSWER_S: Final = 30.0
"""How long a person who fulfilled a proposal waits for its response. The room gets it in any case."""
MOST_WORK: Final = 2_048
MOST_NAMED: Final = 20
RULE: Final = "the proposer may not do this by itself"
_log = logging.getLogger(__name__)


class InboxTopics(Protocol):
    """The topics, as an inbox uses them."""

    def capabilities(self, topic: str, id: str, principal: Principal | None) -> CapabilitySet:
        """The capabilities of a participant, connected or not."""

    def join_locally(self, topic: str, by: Principal) -> LocalParticipant:
        """Join a topic in this process, beside other connections of the same principal. Raises Fault."""


class Entry:
    """One open proposal."""

    __slots__ = ("decision", "envelope", "proposer")

    def __init__(self, envelope: Envelope, proposer: Principal | None) -> None:
        self.envelope = envelope
        self.proposer = proposer
        """None for a guest."""
        self.decision = ""
        """The approval request, once it is stored."""


class ProposalInbox:
    """The inbox as a participant of one topic (`internal_participant.InternalParticipant`)."""

    id = system.INBOX
    capabilities = CapabilitySet(())

    def __init__(self, room: Room, topics: InboxTopics, hub_app: HubApp) -> None:
        self._room = room
        self._topics = topics
        self._hub_app = hub_app
        self._inbox = hub_app.inbox
        self._entries: dict[str, Entry] = {}
        """By proposal. Each is as old as the topic lets a proposal become."""
        self._work: asyncio.Queue[Coroutine[None, None, None]] = asyncio.Queue(MOST_WORK)
        self._task: asyncio.Task[None] | None = None

    def wants(self, envelope: Envelope) -> bool:
        """Proposals, and envelopes that may end one."""
        type_ = envelope.kind.type
        return type_ in (kinds.PROPOSAL, kinds.WITHDRAW, kinds.REJECT) or (
            type_ == kinds.REQUEST and envelope.correlation_id is not None
        )

    def receive(self, sender: Member, envelope: Envelope, proposal: Proposal | None) -> None:
        """Offer a new proposal, or end the approval request of one that has ended."""
        if proposal is None:
            return
        if proposal.state is not State.OPEN:
            self._end(proposal, _why(proposal, envelope))
            return
        try:
            check_payload(envelope)
        except Refusal as refusal:
            # A person must not approve what a kind hides.
            self._room.report(sender, refusal)
            return
        entry = self._entries[envelope.id] = Entry(envelope, sender.principal)
        self._later(self._offer(entry))

    def on_expired(self, proposal: Proposal) -> None:
        """A proposal's time has passed."""
        self._end(proposal, "nobody fulfilled it in time")

    def leave(self) -> None:
        """The topic has ended, or arbitrates no more: its approval requests end."""
        for entry in self._entries.values():
            self._later(self._close(entry, DecisionEvent.CHANGE, "the topic was closed"))
        self._entries.clear()

    async def answer(self, by: Principal, decision: Decision, given: ProposalAnswer, *, wait: bool) -> Envelope | None:
        """Fulfil or reject a proposal in a person's name. Returns the response, with `wait` and if one came in time."""
        entry = self._entries.get(decision.question.proposal)
        if entry is None or entry.decision != decision.id:
            raise Fault("INVALID_PARAMS", f"the proposal of decision {decision.id} has ended")
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
                request = me.say(f"{kinds.REQUEST}:{kind.operation}", _request(entry), to, entry.envelope.id)
            except Refusal as refusal:
                await self._refused(answered, refusal)
                raise Fault("INVALID_PARAMS", refusal.message, hint=refusal.fix) from None
            await self._inbox.use(decision.id)
            return await me.response(request, to, ANSWER_S) if wait else None
        finally:
            me.leave()

    def _absent(self, to: Sequence[str]) -> Fault:
        """Nobody would answer, so the approval request stays open."""
        here = ", ".join(one.id for one in self._room.participants[:MOST_NAMED] if one.id != self.id) or "nobody"
        hint = f"name somebody who is there: `interlock rooms fulfil {self._room.name} ID --to PARTICIPANT`"
        return Fault("INVALID_PARAMS", f"{', '.join(to)} is not in {self._room.name}; here: {here}", hint=hint)

    async def _refused(self, answered: Decision, refusal: Refusal) -> None:
        elsewhere = refusal.reason is Reason.PROPOSAL_ALREADY_FULFILLED
        event = DecisionEvent.FULFIL_ELSEWHERE if elsewhere else DecisionEvent.CHANGE
        await self._inbox.end(answered.id, event, refusal.message)

    async def _offer(self, entry: Entry) -> None:
        shown = _shown(entry)
        view = await full_view(shown)
        if not view:
            return  # Nobody could read all of it.
        question = self._question(entry, shown)
        decision = await self._inbox.ask(question, view=view)
        entry.decision = decision.id
        rule = self._inbox.rule_for(question)
        maker = None if rule is None else find_person(self._hub_app, rule.made_by)
        if maker is None:
            return
        try:
            await self.answer(maker, decision, ProposalAnswer("once", "rule", decision.question.view), wait=False)
        except Fault as fault:
            _log.info("a rule could not fulfil a proposal: %s", fault.message)

    def _question(self, entry: Entry, shown: dict[str, Any]) -> Question:
        envelope, proposer = entry.envelope, entry.proposer
        operation, topic = envelope.kind.operation, self._room.name
        to = f" to {', '.join(envelope.to)}" if envelope.to else ""
        return Question(
            kind="proposal",
            asker=envelope.sender if proposer is None else proposer.id,
            asker_kind="agent" if proposer is None else proposer.kind,
            server=f"room:{topic}",
            name=operation,
            shown=f"{operation} in {topic}",
            text=f"{envelope.sender} proposes {operation}{to} in the room {topic}.",
            rule=RULE,
            fingerprint=self._definition(envelope, shown),
            arguments_hash=fingerprint(shown),
            # The question names the rest.
            summary=summary_of((shown["params"] or {}).get("arguments", shown["params"])),
            # An access token is renewed every few minutes; the proposer's connection ends with it.
            asked_with="" if proposer is None or proposer.key.startswith(TOKEN) else proposer.key,
            proposal=envelope.id,
            node=self._hub_app.node,
        )

    def _definition(self, envelope: Envelope, shown: dict[str, Any]) -> str:
        """The fingerprint of the proposed tool of a server in the topic: a rule ends when the tool changes."""
        if envelope.kind.method != "tools/call" or len(envelope.to) != 1 or not envelope.to[0].startswith(PREFIX):
            return ""
        name = (shown.get("params") or {}).get("name")
        tool = self._hub_app.catalog.tool(View(server=envelope.to[0].removeprefix(PREFIX)), str(name))
        return "" if tool is None else tool.fingerprint()

    def _end(self, proposal: Proposal, why: str) -> None:
        entry = self._entries.pop(proposal.id, None)
        if entry is None:
            return
        event = {
            State.FULFILLED: DecisionEvent.FULFIL_ELSEWHERE,
            State.EXPIRED: DecisionEvent.EXPIRE,
        }.get(proposal.state, DecisionEvent.CHANGE)
        self._later(self._close(entry, event, why))

    async def _close(self, entry: Entry, event: DecisionEvent, why: str) -> None:
        """End the approval request, unless it was answered: then the answer ended the proposal."""
        if entry.decision and self._inbox.get(entry.decision).state is DecisionState.OPEN:
            await self._inbox.end(entry.decision, event, why)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        """Do this in its turn. The store takes time, and a request is stored before it ends."""
        try:
            self._work.put_nowait(work)
        except asyncio.QueueFull:
            work.close()
            _log.warning("the inbox of the room %s is behind", self._room.name)
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"inbox of {self._room.name}")

    async def _run(self) -> None:
        while not self._work.empty():
            try:
                await self._work.get_nowait()
            except (Fault, StoreError) as cause:
                _log.warning("an approval request of the room %s could not be stored: %s", self._room.name, cause)


def _shown(entry: Entry) -> dict[str, Any]:
    """The action that a person approves, and its performer."""
    payload = msgspec.json.decode(entry.envelope.payload, type=dict[str, Any])
    return {"to": list(entry.envelope.to), "method": payload["method"], "params": payload.get("params", {})}


def _request(entry: Entry) -> dict[str, object]:
    """The request that was shown, so that nothing goes out which a person could not read."""
    shown = _shown(entry)
    return {"jsonrpc": "2.0", "id": 1, "method": shown["method"], "params": shown["params"]}


def _why(proposal: Proposal, envelope: Envelope) -> str:
    by = proposal.ended_by or ""
    said = msgspec.json.decode(envelope.payload, type=dict[str, Any]).get("reason")
    because = f": {said}" if isinstance(said, str) and said else ""
    return f"{proposal.state.value} by {by}{because}"[:500]
