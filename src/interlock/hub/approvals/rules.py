"""Rules that allow calls without a further approval. The hub learns them from the answer "always".

A rule covers exactly the approved calls: the same agent, the same tool and definition, the same arguments. Only further
answers widen it. It ends when the tool changes or a person revokes it.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.hub.approvals.decision import EVERY_TIME, ApprovalRequest, Decision, Kind
from interlock.hub.approvals.states import DecisionState
from interlock.store import Collection

OFFER_AFTER: Final = 3
"""Equal approvals after which the hub offers a rule."""
MAX_CALLS: Final = 64
"""Sets of arguments that one rule covers."""


LEARNED: Final = ("tool_call", "proposal")
"""The kinds of requests that rules are learned from."""


class Rule(msgspec.Struct, frozen=True):
    """Always-approved calls of one agent to one tool, or always-fulfilled proposals of one agent in one room."""

    id: str
    asker: str
    asker_kind: str
    server: str
    name: str
    shown: str
    fingerprint: str
    calls: dict[str, str]
    """The covered arguments: their hashes with summaries."""
    decisions: tuple[str, ...]
    """The answers it was learned from."""
    made_by: str
    made_at: int
    kind: Kind = "tool_call"

    def covers(self, request: ApprovalRequest) -> bool:
        """Whether the rule approves exactly this call."""
        return (
            request.kind == self.kind
            and (self.asker, self.asker_kind) == (request.asker, request.asker_kind)
            and (self.server, self.name, self.fingerprint) == (request.server, request.name, request.fingerprint)
            and request.arguments_hash in self.calls
        )

    def explain(self) -> str:
        calls = "these arguments" if len(self.calls) == 1 else f"{len(self.calls)} sets of arguments"
        if self.kind == "proposal":
            return (
                f"proposals of {self.asker} for {self.shown} with {calls} are fulfilled in the name of {self.made_by}"
            )
        return f"{self.asker} may call {self.shown} with {calls}, while the tool stays as it is"


RULES: Final = Collection("approval_rules", Rule, key="id")


def rule_id(request: ApprovalRequest) -> str:
    """The id of the rule for an agent and a tool definition."""
    identity = (request.asker_kind, request.asker, request.server, request.name, request.fingerprint)
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:12]


def learn(answer: Decision, made_by: str, now: int, known: Rule | None = None) -> Rule:
    """A rule from an approval, added to the known one of the same agent and tool. Raises ValueError for a denial."""
    asked = answer.request
    if asked.kind not in LEARNED or answer.state not in (DecisionState.APPROVED, DecisionState.USED):
        raise ValueError(f"approval request {answer.id} is not an approved call")
    if asked.every_time:
        raise ValueError(f"no rule can be made from approval request {answer.id}: {EVERY_TIME}")
    calls, decisions = ({}, ()) if known is None or known.id != rule_id(asked) else (known.calls, known.decisions)
    calls = {**calls, asked.arguments_hash: asked.summary}
    if len(calls) > MAX_CALLS:
        raise ValueError(f"a rule covers at most {MAX_CALLS} calls; use a grant or the agent's settings instead")
    return Rule(
        rule_id(asked), asked.asker, asked.asker_kind, asked.server, asked.name, asked.shown, asked.fingerprint,
        calls, tuple(dict.fromkeys((*decisions, answer.id))), made_by, now, asked.kind,
    )  # fmt: skip
