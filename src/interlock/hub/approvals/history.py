"""Earlier approvals, indexed: how often the same call was approved, and the last approved call to the same target.

The inbox reports every change of a decision, so both are as long as the decisions that it keeps.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.states import DecisionState

_Target: TypeAlias = tuple[str, str, str, str, str]


class ApprovalHistory:
    """The approvals among the known decisions."""

    def __init__(self) -> None:
        self._once: Counter[str] = Counter()
        """By subject: how many known decisions approved it once."""
        self.last: dict[_Target, Decision] = {}

    def follow(self, before: Decision | None, after: Decision | None) -> None:
        """A decision changed, or was added or deleted."""
        if before is not None and _approved(before):
            if before.answer == "once":
                self._count(before.question.subject, -1)
            target = _target(before.question)
            if self.last.get(target) == before:
                del self.last[target]
        if after is not None and _approved(after):
            if after.answer == "once":
                self._count(after.question.subject, 1)
            self.last[_target(after.question)] = after

    def times_approved(self, question: Question) -> int:
        """How often the same call was approved once."""
        return self._once[question.subject]

    def last_approved(self, decision: Decision) -> Decision | None:
        """The last approved request of the same asker for the same target, other than this one."""
        found = self.last.get(_target(decision.question))
        return found if found is not None and found.id != decision.id else None

    def _count(self, subject: str, step: int) -> None:
        self._once[subject] += step
        if not self._once[subject]:
            del self._once[subject]


def _approved(decision: Decision) -> bool:
    return bool(decision.answer) and decision.state in (DecisionState.APPROVED, DecisionState.USED)


def _target(question: Question) -> _Target:
    return question.kind, question.asker_kind, question.asker, question.server, question.name
