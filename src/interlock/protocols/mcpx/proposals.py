"""The life of a proposal as one table of transitions, and who may cause each of them.

Four rules hold here. Only an open proposal changes: the first fulfilment wins, and no transition leads back to open. A
proposer may always withdraw its own proposal. A participant of the proposer's principal never fulfils it. Everyone who
could fulfil a proposal may reject it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.kinds import EnvelopeKind, fulfilling


class ProposalState(enum.Enum):
    """The five states."""

    OPEN = "open"
    FULFILLED = "fulfilled"
    WITHDRAWN = "withdrawn"
    REJECTED = "rejected"
    EXPIRED = "expired"


class ProposalEvent(enum.Enum):
    """The events of a proposal."""

    FULFIL = "fulfil"
    """A participant that may do so sent the request that was proposed."""
    WITHDRAW = "withdraw"
    """The proposer no longer wants it."""
    REJECT = "reject"
    """A participant that could have fulfilled it said no."""
    EXPIRE = "expire"
    """Its time has passed."""


TRANSITIONS: Final[Mapping[ProposalState, Mapping[ProposalEvent, ProposalState]]] = {
    ProposalState.OPEN: {
        ProposalEvent.FULFIL: ProposalState.FULFILLED,
        ProposalEvent.WITHDRAW: ProposalState.WITHDRAWN,
        ProposalEvent.REJECT: ProposalState.REJECTED,
        ProposalEvent.EXPIRE: ProposalState.EXPIRED,
    },
    ProposalState.FULFILLED: {},
    ProposalState.WITHDRAWN: {},
    ProposalState.REJECTED: {},
    ProposalState.EXPIRED: {},
}

_ENDED: Final = {
    ProposalState.FULFILLED: (RefusalReason.PROPOSAL_ALREADY_FULFILLED, "was fulfilled already"),
    ProposalState.WITHDRAWN: (RefusalReason.PROPOSAL_WITHDRAWN, "was withdrawn"),
    ProposalState.REJECTED: (RefusalReason.PROPOSAL_REJECTED, "was rejected"),
    ProposalState.EXPIRED: (RefusalReason.PROPOSAL_EXPIRED, "has expired"),
}


class Proposal(msgspec.Struct, frozen=True):
    """The members of a proposal that arbitration needs."""

    id: str
    proposer: str
    principal_id: str
    """The id of the proposer's principal."""
    kind: EnvelopeKind
    expires_at: float
    state: ProposalState = ProposalState.OPEN
    ended_by: str | None = None
    """The participant that fulfilled, withdrew or rejected it."""
    request_id: str | None = None
    """The envelope that fulfilled it."""


def step(proposal: Proposal, event: ProposalEvent, by: str | None = None, request_id: str | None = None) -> Proposal:
    """The proposal after an event. Raises `EnvelopeRefused` if it has ended already."""
    after = TRANSITIONS[proposal.state].get(event)
    if after is None:
        raise ended(proposal)
    return msgspec.structs.replace(proposal, state=after, ended_by=by, request_id=request_id)


def as_of(proposal: Proposal, now: float) -> Proposal:
    """The state of a proposal at this time: an open one expires when its time has passed."""
    return (
        step(proposal, ProposalEvent.EXPIRE)
        if proposal.state is ProposalState.OPEN and now >= proposal.expires_at
        else proposal
    )


def check_fulfil(proposal: Proposal, request: EnvelopeKind, by: str, principal_id: str) -> None:
    """Refuse a fulfilment that this participant may not make. Its capabilities were checked before."""
    if is_own(proposal, by, principal_id):
        message = f"The proposal {proposal.id!r} is your own, or that of a participant of the same principal."
        raise EnvelopeRefused(
            RefusalReason.OWN_PROPOSAL, message, "Wait for a participant of another principal to fulfil it."
        )
    method, context = proposal.kind.method, proposal.kind.context
    same_context = context is None or request.context is None or context == request.context
    if request.method != method or not same_context:
        message = f"The proposal {proposal.id!r} is for {proposal.kind.operation!r}."
        fix = f"Send `{fulfilling(proposal.kind)}`, or leave `correlation_id` out of another request."
        raise EnvelopeRefused(RefusalReason.PROPOSAL_MISMATCH, message, fix)


def check_withdraw(proposal: Proposal, by: str) -> None:
    """Refuse a withdrawal by anyone but the proposer."""
    if by != proposal.proposer:
        message = f"The proposal {proposal.id!r} is that of {proposal.proposer!r}."
        raise EnvelopeRefused(RefusalReason.NOT_THE_PROPOSER, message, "Send `mcp/reject` if you could fulfil it.")


def check_reject(proposal: Proposal, by: str, principal_id: str, capabilities: CapabilitySet) -> None:
    """Refuse a rejection by a participant that could not fulfil the proposal."""
    if is_own(proposal, by, principal_id):
        message = f"You could not fulfil the proposal {proposal.id!r}: it is of your own principal."
        raise EnvelopeRefused(RefusalReason.CANNOT_REJECT, message, "The proposer can send `mcp/withdraw`.")
    wanted = fulfilling(proposal.kind)
    if not capabilities.covers(wanted):
        message = f"You could not fulfil the proposal {proposal.id!r}: you lack capability for {wanted!r}."
        raise EnvelopeRefused(
            RefusalReason.CANNOT_REJECT, message, "Leave it to a participant that has the capability."
        )


def is_own(proposal: Proposal, by: str, principal_id: str) -> bool:
    """Whether a participant is the proposer or belongs to the same principal."""
    return by == proposal.proposer or principal_id == proposal.principal_id


def ended(proposal: Proposal) -> EnvelopeRefused:
    """The refusal for an envelope about an ended proposal."""
    reason, what = _ENDED[proposal.state]
    return EnvelopeRefused(reason, f"The proposal {proposal.id!r} {what}.", "A new proposal starts anew.")


def mermaid() -> str:
    """The table as a diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ProposalState.OPEN.value}"]
    for state, row in TRANSITIONS.items():
        lines += [f"    {state.value} --> {after.value}: {event.value}" for event, after in row.items()]
    return "\n".join(lines)
