"""A decision: a question with everything it is about, and its answer.

An answer holds for one matter: who asks, for what, its fingerprint, and the exact arguments. Anything else is another
matter. It is given once, before the deadline, by a person, and never by whoever asked.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.hub.approvals.states import DecisionEvent, DecisionState, step
from interlock.hub.auth.principals import Principal
from interlock.store import Collection
from interlock.wire.errors import Fault

Kind: TypeAlias = Literal["tool_call", "changed_tool", "new_server", "permission", "elicitation", "tool_access"]
Answer: TypeAlias = Literal["", "once", "always", "no"]
Where: TypeAlias = Literal["", "terminal", "client", "rule", "api"]


class Question(msgspec.Struct, frozen=True):
    """What is asked."""

    kind: Kind
    asker: str
    """The principal's id; for questions about a server, the server's."""
    asker_kind: str
    server: str
    name: str
    shown: str
    """The target's name as people see it."""
    text: str
    rule: str
    """What made it a question."""
    fingerprint: str = ""
    arguments_hash: str = ""
    summary: str = ""
    """The arguments, or the change, to be read by a person: free of secrets and bounded."""
    risk: str = ""
    trust: str = ""
    """How far the server's own word counts."""
    findings: tuple[str, ...] = ()
    """What the validators have against it, without having refused it."""
    asked_with: str = ""
    """The hash of the credential that asked; an answer holds no longer than that does."""
    trace: str = ""

    @property
    def matter(self) -> str:
        """What an answer holds for, and nothing else."""
        return _digest(
            self.kind, self.asker_kind, self.asker, self.server, self.name, self.fingerprint, self.arguments_hash
        )


class Decision(msgspec.Struct, frozen=True):
    """A question on its way to an answer, and after."""

    id: str
    question: Question
    created: int
    """Milliseconds since 1970; so are the others."""
    deadline: int
    """Until then it can be answered, and its answer holds."""
    state: DecisionState = DecisionState.OPEN
    answer: Answer = ""
    answered_by: str = ""
    answered_in: Where = ""
    answered_at: int | None = None

    def after(self, event: DecisionEvent) -> Decision:
        """The same decision after an event."""
        return msgspec.structs.replace(self, state=step(self.state, event))

    def answered(self, answer: Answer, by: Principal, where: Where, now: int) -> Decision:
        """The same decision with its answer. Raises where it cannot be given, or not by them."""
        asked = self.question
        if by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can answer, and {by.id} is a {by.kind}")
        if (by.id, by.kind) == (asked.asker, asked.asker_kind):
            raise Fault("ACCESS_DENIED", "whoever asked cannot answer", hint="another person has to")
        if self.state is not DecisionState.OPEN:
            told = f" by {self.answered_by}" if self.answered_by else ""
            raise Fault("INVALID_PARAMS", f"decision {self.id} is {self.state.value}{told}; it is answered once")
        if now >= self.deadline:
            raise Fault("INVALID_PARAMS", f"decision {self.id} has expired", hint="have the call repeated")
        event = DecisionEvent.DENY if answer == "no" else DecisionEvent.APPROVE
        return msgspec.structs.replace(
            self.after(event), answer=answer, answered_by=by.id, answered_in=where, answered_at=now
        )


DECISIONS: Final = Collection("decisions", Decision, key="id")


def _digest(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
