"""A decision: an approval request with everything it is about, and its answer.

An answer holds for one matter only: the asker, the target, its fingerprint and the exact arguments. A person gives it
once, before the deadline, and never the asker itself.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.hub.approvals.states import DecisionEvent, DecisionState, step
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Kind as PrincipalKind
from interlock.hub.auth.principals import Principal
from interlock.store import Collection as StoreCollection
from interlock.wire.errors import Fault

Kind: TypeAlias = Literal[
    "tool_call",
    "changed_tool",
    "new_server",
    "permission",
    "elicitation",
    "tool_access",
    "proposal",
    "registration",
    "callback",
    "scope",
]
SHOWN_IN_FULL: Final = frozenset({"changed_tool", "proposal", "registration", "callback", "scope"})
"""Kinds of requests that a person can approve only after reading their full view. Without a view, such a request can
only be denied. A `tool_call` has its view before it becomes a request."""
ANOTHER_PERSON: Final = (
    "another person has to (`interlock keys create NAME --kind person`); or change the rule that asks"
)
EVERY_TIME: Final = "each such call needs a person's answer, and no rule can give it"
Answer: TypeAlias = Literal["", "once", "always", "no"]
LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""The characters of ids and codes that people read aloud and type: none of them look alike."""

Where: TypeAlias = Literal["", "terminal", "client", "rule", "api", "console"]


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A request for a person's approval: who asks, for which target, with which arguments, and why."""

    kind: Kind
    asker: str
    """The id of the principal that asks; the server's id for a request about a server."""
    asker_kind: str
    server: str
    name: str
    shown: str
    """The target's name as people see it."""
    text: str
    rule: str
    """The rule that requires an approval."""
    fingerprint: str = ""
    arguments_hash: str = ""
    summary: str = ""
    """The arguments or the change for a person to read: redacted and bounded."""
    risk: str = ""
    trust: str = ""
    """The trust level of the server."""
    findings: tuple[str, ...] = ()
    """Findings of validators that did not refuse the call."""
    asked_with: str = ""
    """The hash of the asker's credential; an answer ends with it."""
    trace: str = ""
    view: str = ""
    """The hash of the full view. Only a person who opened it knows the hash, and approving needs it."""
    view_chars: int = 0
    every_time: bool = False
    """Whether every such call needs its own answer: no rule covers it, and no rule is learned from it."""

    proposal: str = ""
    """The id of the proposal in a room: each one is a matter of its own."""
    node: str = ""
    """The hub that has the room of the proposal."""
    registers: str = ""
    """The id of a server as its creator wrote it, for a registration."""

    @property
    def needs_view(self) -> bool:
        """Whether only somebody who saw the full view can approve it."""
        return bool(self.view) or self.kind in SHOWN_IN_FULL

    def is_of(self, principal: Principal) -> bool:
        """Whether this principal asks: an asker never answers its own request."""
        return (principal.id, principal.kind) == (self.asker, self.asker_kind)

    def for_reasons_of(self, other: ApprovalRequest) -> ApprovalRequest:
        """This request with the reasons of another request on the same matter."""
        return msgspec.structs.replace(
            self,
            text=other.text,
            rule=other.rule,
            risk=other.risk,
            trust=other.trust,
            findings=other.findings,
            every_time=other.every_time,
        )

    @property
    def matter(self) -> str:
        """The digest that identifies the matter: an answer holds for requests with the same digest."""
        return _digest(self.subject, self.proposal) if self.proposal else self.subject

    @property
    def subject(self) -> str:
        """The digest of asker, target and arguments. Repeated proposals share it, but each is its own matter."""
        return _digest(
            self.kind, self.asker_kind, self.asker, self.server, self.name, self.fingerprint, self.arguments_hash
        )


class Decision(msgspec.Struct, frozen=True):
    """An approval request with its state and, once a person has given it, its answer."""

    id: str
    request: ApprovalRequest = msgspec.field(name="question")
    created: int
    """Milliseconds since 1970, like all times here."""
    deadline: int
    """Until then it can be answered, and an approval holds."""
    state: DecisionState = DecisionState.OPEN
    answer: Answer = ""
    answered_by: str = ""
    answered_in: Where = ""
    answered_at: int | None = None
    reason: str = ""
    """Why a person denied it, in their own words."""
    matter: str = ""
    """The matter of its request, by which other hubs of the store find it."""

    @classmethod
    def opened(cls, id: str, request: ApprovalRequest, now: int, valid_s: float) -> Decision:
        """A decision that waits for an answer until its time is over."""
        return cls(id, request, now, now + int(valid_s * 1000), matter=request.matter)

    def after(self, event: DecisionEvent) -> Decision:
        """This decision after an event."""
        return msgspec.structs.replace(self, state=step(self.state, event))

    def answered(self, answer: Answer, by: Principal, where: Where, now: int, view: str, reason: str = "") -> Decision:
        """This decision with its answer. Raises a `Fault` if it cannot be answered now, or not by this principal.

        `view` is the hash of the view that the person has seen.
        """
        request = self.request
        if by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can answer, and {by.id} is a {by.kind}")
        if request.is_of(by):
            raise Fault("ACCESS_DENIED", "the asker cannot answer its own request", hint=ANOTHER_PERSON)
        if self.state is not DecisionState.OPEN:
            by_whom = f" by {self.answered_by}" if self.answered_by else ""
            message = f"approval request {self.id} is {self.state.value}{by_whom}; it can be answered only once"
            raise Fault("INVALID_PARAMS", message)
        if now >= self.deadline:
            message = f"approval request {self.id} has expired"
            raise Fault("INVALID_PARAMS", message, hint="repeat the call to ask again")
        if answer == "always" and request.every_time:
            hint = f"approve this call alone: `interlock approvals approve {self.id}`"
            message = f"approval request {self.id} cannot be approved always: {EVERY_TIME}"
            raise Fault("INVALID_PARAMS", message, hint=hint)
        if answer != "no" and request.needs_view and not (request.view and view == request.view):
            message = f"approval request {self.id} was not shown in full, so it cannot be approved"
            hint = (
                f"open it first: `interlock approvals show {self.id}`" if request.view else "only a denial is possible"
            )
            raise Fault("INVALID_PARAMS", message, hint=hint)
        event = DecisionEvent.DENY if answer == "no" else DecisionEvent.APPROVE
        return msgspec.structs.replace(
            self.after(event), answer=answer, answered_by=by.id, answered_in=where, answered_at=now, reason=reason
        )


def new_id(*taken: Collection[str]) -> str:
    """An id that no decision has."""
    for length in range(3, 12):
        for _ in range(8):
            id_ = "".join(secrets.choice(LETTERS) for _ in range(length))
            if not any(id_ in known for known in taken):
                return id_
    raise Fault("INTERNAL_ERROR", "no id is free for another approval request")


def asker_of(request: ApprovalRequest) -> Principal:
    """The principal that asks; NOBODY for requests about a server."""
    kinds: tuple[PrincipalKind, ...] = ("agent", "person", "service", "admin")
    kind = next((kind for kind in kinds if kind == request.asker_kind), None)
    return NOBODY if kind is None else Principal(request.asker, kind)


DECISIONS: Final = StoreCollection("decisions", Decision, key="id", columns=("matter",))


def _digest(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
