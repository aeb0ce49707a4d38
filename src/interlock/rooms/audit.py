"""Records of one topic for the audit log."""

from __future__ import annotations

from interlock.hub.audit.entries import NOBODY
from interlock.hub.journal import Journal
from interlock.protocols.mcpx.errors import RefusalReason
from interlock.protocols.mcpx.proposals import Proposal, ProposalState
from interlock.rooms.member import RoomMember


class RoomAudit:
    """Records for one topic."""

    def __init__(self, journal: Journal, topic: str) -> None:
        self._journal = journal
        self._topic = topic

    def record(
        self, event: str, member: RoomMember, details: dict[str, object], rule: str = "", reason: str = ""
    ) -> None:
        """Record what a participant did."""
        by = member.principal or NOBODY
        self._journal.room(event, by, self._topic, rule=rule, reason=reason, details=details)

    def refusal(self, member: RoomMember, reason: RefusalReason, message: str, kind: str | None, count: int) -> None:
        """Record `count` refusals of a participant for one reason."""
        details: dict[str, object] = {"participant": member.id, "count": count}
        if kind is not None:
            details["kind"] = kind[:256]
        self.record("refused", member, details, rule=reason.value, reason=message[:256])

    def proposal(self, member: RoomMember | None, proposal: Proposal) -> None:
        """Record that a proposal was opened or has ended; without a participant, that it expired."""
        by = NOBODY if member is None or member.principal is None else member.principal
        details: dict[str, object] = {
            "proposal": proposal.id,
            "proposer": proposal.proposer,
            "kind": proposal.kind.text[:256],
        }
        if proposal.state is not ProposalState.OPEN and member is not None:
            details["by"] = member.id
        if proposal.request_id is not None:
            details["request"] = proposal.request_id
        self._journal.room(f"proposal_{proposal.state.value}", by, self._topic, details=details)
