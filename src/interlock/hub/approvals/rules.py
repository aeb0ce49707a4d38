"""Rules: "always allow this for that agent", learned from answers and never wider than them.

A rule covers exactly the calls that were approved: the same agent, the same tool with the same definition, the same
arguments. It grows by further answers alone, and ends when the tool changes or someone revokes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.states import DecisionState
from interlock.store import Collection

OFFER_AFTER: Final = 3
"""So many equal approvals, and a rule is offered."""
MOST_CALLS: Final = 64
"""Calls that one rule covers. Whoever wants more than that wants another setting."""


class Rule(msgspec.Struct, frozen=True):
    """What was learned of one agent and one tool."""

    id: str
    asker: str
    asker_kind: str
    server: str
    name: str
    shown: str
    fingerprint: str
    calls: dict[str, str]
    """The arguments it covers, as hash, each with its summary."""
    decisions: tuple[str, ...]
    """The answers it came from."""
    made_by: str
    made_at: int

    def covers(self, question: Question) -> bool:
        """Whether this very call was approved for good."""
        return (
            question.kind == "tool_call"
            and (self.asker, self.asker_kind) == (question.asker, question.asker_kind)
            and (self.server, self.name, self.fingerprint) == (question.server, question.name, question.fingerprint)
            and question.arguments_hash in self.calls
        )

    def explain(self) -> str:
        """In a sentence."""
        calls = "these arguments" if len(self.calls) == 1 else f"{len(self.calls)} sets of arguments"
        return f"{self.asker} may call {self.shown} with {calls}, while the tool stays as it is"


RULES: Final = Collection("approval_rules", Rule, key="id")


def rule_id(question: Question) -> str:
    """One rule for each agent and tool as it is defined."""
    said = (question.asker_kind, question.asker, question.server, question.name, question.fingerprint)
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:12]


def learn(answers: Sequence[Decision], made_by: str, now: int, known: Rule | None = None) -> Rule:
    """A rule from approvals of one agent and tool, added to what is known. Raises ValueError for anything else."""
    first = answers[0].question
    for answer in answers:
        if answer.question.kind != "tool_call" or answer.state not in (DecisionState.APPROVED, DecisionState.USED):
            raise ValueError(f"decision {answer.id} approved no call")
        if rule_id(answer.question) != rule_id(first):
            raise ValueError("a rule comes from answers about one agent and one tool")
    known = known if known is not None and known.id == rule_id(first) else None
    calls = dict(known.calls) if known is not None else {}
    calls |= {answer.question.arguments_hash: answer.question.summary for answer in answers}
    if len(calls) > MOST_CALLS:
        raise ValueError(f"a rule covers at most {MOST_CALLS} calls; use the agent's settings for more")
    decisions = dict.fromkeys((*(known.decisions if known is not None else ()), *(answer.id for answer in answers)))
    return Rule(
        rule_id(first), first.asker, first.asker_kind, first.server, first.name, first.shown, first.fingerprint,
        calls, tuple(decisions), made_by, now,
    )  # fmt: skip
