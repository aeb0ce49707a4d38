"""Earlier approvals, indexed: how often the same call was approved, and the last approved call to the same target.

The inbox reports every change of a decision, so both are as long as the decisions that it keeps.
"""

from __future__ import annotations

from typing import TypeAlias

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.states import DecisionState
from interlock.process.open_counts import OpenCounts

_Target: TypeAlias = tuple[str, str, str, str, str]


class ApprovalHistory:
    """The approvals among the known decisions."""

    def __init__(self) -> None:
        self._once: OpenCounts[str] = OpenCounts()
        """By subject: how many known decisions approved it once."""
        self.last: dict[_Target, Decision] = {}

    def follow(self, before: Decision | None, after: Decision | None) -> None:
        """A decision changed, or was added or deleted."""
        if before is not None and _approved(before):
            if before.answer == "once":
                self._count(before.request.subject, -1)
            target = _target(before.request)
            if self.last.get(target) == before:
                del self.last[target]
        if after is not None and _approved(after):
            if after.answer == "once":
                self._count(after.request.subject, 1)
            self.last[_target(after.request)] = after

    def times_approved(self, request: ApprovalRequest) -> int:
        """How often the same call was approved once."""
        return self._once[request.subject]

    def last_approved(self, decision: Decision) -> Decision | None:
        """The last approved request of the same asker for the same target, other than this one."""
        found = self.last.get(_target(decision.request))
        return found if found is not None and found.id != decision.id else None

    def _count(self, subject: str, step: int) -> None:
        self._once.add(subject, step)


def _approved(decision: Decision) -> bool:
    return bool(decision.answer) and decision.state in (DecisionState.APPROVED, DecisionState.USED)


def _target(request: ApprovalRequest) -> _Target:
    return request.kind, request.asker_kind, request.asker, request.server, request.name
