"""The open and recently ended proposals of one topic. Bounded, without a clock.

The gateway keeps only the members that arbitration needs (ids, proposer, principal, kind, expiry). A request is a
fulfilment only if its `correlation_id` names a proposal in the ledger.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final

import msgspec

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.proposals import (
    Proposal,
    ProposalEvent,
    ProposalState,
    as_of,
    check_fulfil,
    check_reject,
    check_withdraw,
    ended,
    step,
)
from interlock.protocols.mcpx.recent import RecentValues


class LedgerBounds(msgspec.Struct, frozen=True):
    """How many proposals a topic keeps, and for how long."""

    lifetime: float = 300.0
    """Seconds until an open proposal expires."""
    open_per_principal: int = 32
    """Open proposals of all participants of one principal. Another connection or guest of the principal adds none."""
    open: int = 512
    ended_per_proposer: int = 256
    ended: int = 4_096
    ended_for: float = 3_600.0
    """Seconds for which the ledger keeps an ended proposal, to refuse late fulfilments and to route its answer."""


DEFAULT_LEDGER: Final = LedgerBounds()


class ProposalLedger:
    """The proposals of one topic."""

    __slots__ = ("_bounds", "_ended", "_expired", "_fulfilments", "_open", "_open_by")

    def __init__(self, bounds: LedgerBounds = DEFAULT_LEDGER) -> None:
        self._bounds = bounds
        self._open: OrderedDict[str, Proposal] = OrderedDict()
        self._open_by: Counter[str] = Counter()
        self._expired: deque[Proposal] = deque(maxlen=bounds.ended)
        """Found to have expired, and not yet given back by `expire`."""
        self._ended: RecentValues[Proposal] = RecentValues(bounds.ended_for, bounds.ended_per_proposer, bounds.ended)
        self._fulfilments: RecentValues[str] = RecentValues(bounds.ended_for, bounds.ended_per_proposer, bounds.ended)

    def __len__(self) -> int:
        """How many are open, or not yet seen to have expired."""
        return len(self._open)

    def propose(self, envelope: Envelope, principal_id: str, now: float) -> Proposal:
        """Open a proposal. Raises `EnvelopeRefused` when there are too many."""
        self._end_expired(now)
        own, most = self._open_by[principal_id], self._bounds.open_per_principal
        if own >= most or len(self._open) >= self._bounds.open:
            message = f"You and others of your principal have {own} open proposals, and the topic {len(self._open)}."
            fix = f"Withdraw one with `mcp/withdraw`, or wait; the participants of one principal have at most {most}."
            raise EnvelopeRefused(RefusalReason.TOO_MANY_PROPOSALS, message, fix)
        expires_at = now + self._bounds.lifetime
        proposal = Proposal(envelope.id, envelope.sender, principal_id, envelope.kind, expires_at)
        self._open[proposal.id] = proposal
        self._open_by[principal_id] += 1
        return proposal

    def find(self, id: str, now: float) -> Proposal | None:
        """The current state of a proposal; None if the ledger does not know it."""
        found = self._open.get(id)
        return self._ended.get(id, now) if found is None else as_of(found, now)

    def fulfil(self, envelope: Envelope, principal_id: str, now: float) -> Proposal | None:
        """Fulfil the proposal that a request names; None for a request that names none. Raises `EnvelopeRefused`."""
        proposal = self.find(envelope.correlation_id or "", now)
        if proposal is None:
            return None
        self._check_open(proposal, now)
        check_fulfil(proposal, envelope.kind, envelope.sender, principal_id)
        done = self._end(proposal, ProposalEvent.FULFIL, now, envelope.sender, envelope.id)
        self._fulfilments.add(envelope.id, proposal.proposer, proposal.proposer, now)
        return done

    def withdraw(self, envelope: Envelope, now: float) -> Proposal:
        """Withdraw the proposal that the envelope names. Raises `EnvelopeRefused`."""
        proposal = self._named(envelope, now)
        check_withdraw(proposal, envelope.sender)
        self._check_open(proposal, now)
        return self._end(proposal, ProposalEvent.WITHDRAW, now, envelope.sender)

    def reject(self, envelope: Envelope, principal_id: str, capabilities: CapabilitySet, now: float) -> Proposal:
        """Reject the proposal that the envelope names. Raises `EnvelopeRefused`."""
        proposal = self._named(envelope, now)
        check_reject(proposal, envelope.sender, principal_id, capabilities)
        self._check_open(proposal, now)
        return self._end(proposal, ProposalEvent.REJECT, now, envelope.sender)

    def expire(self, now: float) -> list[Proposal]:
        """End the proposals whose time has passed. Returns each of them once."""
        self._end_expired(now)
        found = list(self._expired)
        self._expired.clear()
        return found

    def proposer_answered_by(self, response: Envelope, now: float) -> str | None:
        """The proposer of the proposal that the answered request fulfilled; None where there is none."""
        return self._fulfilments.get(response.correlation_id or "", now)

    def _named(self, envelope: Envelope, now: float) -> Proposal:
        proposal = self.find(envelope.correlation_id or "", now)
        if proposal is None:
            message = f"This topic knows no proposal {envelope.correlation_id!r}."
            raise EnvelopeRefused(
                RefusalReason.UNKNOWN_PROPOSAL, message, "Name the proposal's `id` as `correlation_id`."
            )
        return proposal

    def _end_expired(self, now: float) -> None:
        # All proposals have the same lifetime, so the oldest expires first.
        while (oldest := next(iter(self._open.values()), None)) is not None and now >= oldest.expires_at:
            self._expired.append(self._end(oldest, ProposalEvent.EXPIRE, now))

    def _check_open(self, proposal: Proposal, now: float) -> None:
        self._end_expired(now)
        if proposal.state is not ProposalState.OPEN:
            raise ended(proposal)

    def _end(
        self, proposal: Proposal, event: ProposalEvent, now: float, by: str | None = None, request_id: str | None = None
    ) -> Proposal:
        after = step(proposal, event, by, request_id)
        del self._open[proposal.id]
        self._open_by[proposal.principal_id] -= 1
        if not self._open_by[proposal.principal_id]:
            del self._open_by[proposal.principal_id]
        self._ended.add(after.id, after, after.proposer, now)
        return after
