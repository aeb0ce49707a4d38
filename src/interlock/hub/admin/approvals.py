"""Operations on approval requests and rules.

An answer needs a person: over the control socket one at a terminal, since a program may act for its user; over the API
the holder of a person's key. Where the hub has a passphrase, an approval needs that too, wherever it comes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from interlock.hub.admin.operation import ControlFlag, Nothing, Secret, Text
from interlock.hub.admin.rooms import ProposalAnswer, RoomGateway
from interlock.hub.approvals.decision import Answer, Decision, Kind, Where
from interlock.hub.approvals.due_decisions import MAX_KEPT
from interlock.hub.approvals.inbox import MAX_OPEN, Inbox
from interlock.hub.approvals.open_part import EXACT, Order, WantedRequests
from interlock.hub.approvals.passphrase import Passphrase
from interlock.hub.approvals.rules import Rule
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.process.turns import in_turns
from interlock.wire.errors import Fault

MAX_REASON: Final = 500
DEFAULT_MOST: Final = 200
"""Rows for a holder of a key who does not say how many."""


class ApprovalOperations:
    """The operations of one inbox."""

    def __init__(self, inbox: Inbox, passphrase: Passphrase, rooms: RoomGateway | None = None) -> None:
        self._inbox = inbox
        self._passphrase = passphrase
        self._rooms = rooms

    async def list(self, by: Principal, params: ListDecisions, trace: str) -> DecisionRows:
        """Open approval requests, or all."""
        if self._rooms is not None:
            # A participant whose proposal was accepted must find its approval request here.
            await self._rooms.proposals_stored()
        # Over the control socket, the user whose hub it is gets all of them.
        most = params.most or (DEFAULT_MOST if by.key else MAX_OPEN + MAX_KEPT)
        if params.all or (most > EXACT and params.order == "oldest" and not params.ids):
            found, end = await self._listed(params), params.first + most
            return await self._rows(found[params.first : end], len(found), end if end < len(found) else None)
        ids = frozenset(params.ids.split(",")) - {""}
        part = self._inbox.part(WantedRequests(most, params.first, params.order, params.kind, params.server, ids))
        return await self._rows(part.decisions, part.total, part.next)

    async def _listed(self, params: ListDecisions) -> Sequence[Decision]:
        """The decisions that are asked for, the oldest first, found in short turns of the loop."""
        found = [
            one
            async for one in in_turns(self._inbox.unsorted(only_open=not params.all))
            if params.wants(one) and (params.all or self._inbox.is_open(one))
        ]
        return await asyncio.to_thread(sorted, found, key=lambda one: one.created)

    async def _rows(self, decisions: Sequence[Decision], total: int, following: int | None) -> DecisionRows:
        return DecisionRows([self.shown(decision) async for decision in in_turns(decisions)], total, following)

    async def show(self, by: Principal, params: NamedApproval, trace: str) -> OneDecision:
        """One approval request."""
        decision = self._inbox.get(params.id)
        view = await self._inbox.view(decision)
        request, last = decision.request, self._inbox.history.last_approved(decision)
        return OneDecision(
            self.shown(decision),
            view,
            request.view if view is not None else None,
            None if last is None else last.request.summary,
            None if last is None else last.request.arguments_hash == request.arguments_hash,
            is_own=request.is_of(by),
        )

    async def answer(self, by: Principal, params: GiveAnswer, trace: str) -> OneDecision:
        """Approve or deny a call."""
        where = _place(by, params.terminal, params.console)
        if params.reason and params.answer != "no":
            raise Fault("INVALID_PARAMS", "only a denial has a reason")
        decision = self._inbox.get(params.id)
        if params.answer != "no":
            await self._passphrase.demand(by, params.passphrase)
        if decision.request.kind != "proposal":
            answered = await self._inbox.answer(params.id, params.answer, by, where, params.view, params.reason)
            return OneDecision(self.shown(answered))
        if self._rooms is None:
            raise Fault("NOT_FOUND", "this hub has no rooms")
        answer = ProposalAnswer(params.answer, where, params.view, params.reason, params.to)
        response = await self._rooms.answer_proposal(by, decision, answer)
        return OneDecision(self.shown(self._inbox.get(params.id)), response=response)

    async def rules(self, by: Principal, params: Nothing, trace: str) -> RuleRows:
        """Every rule."""
        return RuleRows([_shown_rule(rule) for rule in self._inbox.rules()])

    async def make_rule(self, by: Principal, params: MakeRule, trace: str) -> MadeRule:
        """Make a rule from an approved call."""
        _place(by, params.terminal)
        await self._passphrase.demand(by, params.passphrase)
        return MadeRule(_shown_rule(await self._inbox.make_rule(params.decision, by)))

    async def revoke_rule(self, by: Principal, params: NamedApproval, trace: str) -> RevokedRule:
        """Delete a rule."""
        return RevokedRule(_shown_rule(await self._inbox.revoke_rule(params.id, by)))

    async def set_passphrase(self, by: Principal, params: NewPassphrase, trace: str) -> PassphraseState:
        """Set the passphrase that approvals need from now on."""
        _place(by, params.terminal)
        await self._passphrase.set(by, params.new, params.passphrase)
        return PassphraseState(self._passphrase.needed)

    async def remove_passphrase(self, by: Principal, params: RemovePassphrase, trace: str) -> PassphraseState:
        """Remove the passphrase."""
        _place(by, params.terminal)
        await self._passphrase.remove(by, params.passphrase)
        return PassphraseState(self._passphrase.needed)

    def shown(self, decision: Decision) -> DecisionRow:
        """An approval request for display."""
        request = decision.request
        return DecisionRow(
            id=decision.id,
            kind=request.kind,
            state=decision.state,
            asker=request.asker,
            asker_kind=request.asker_kind,
            server=request.server,
            name=request.name,
            target=request.shown,
            question=request.text,
            rule=request.rule,
            risk=request.risk,
            trust=request.trust,
            findings=request.findings,
            summary=request.summary,
            arguments_hash=request.arguments_hash,
            fingerprint=request.fingerprint,
            trace=request.trace,
            created=_instant(decision.created),
            deadline=_instant(decision.deadline),
            answer=decision.answer,
            answered_by=decision.answered_by,
            answered_in=decision.answered_in,
            answered_at=None if decision.answered_at is None else _instant(decision.answered_at),
            reason=decision.reason,
            offers_rule=self._inbox.offers_rule(decision),
            proposal=request.proposal,
            needs_view=request.needs_view,
            view_chars=request.view_chars,
            every_time=request.every_time,
            caller_gone=self._inbox.callers.has_gone(decision.id),
        )


def _place(by: Principal, terminal: bool, console: bool = False) -> Where:
    """Where a person answers. A principal without a key comes over the control socket or the console.

    The console admits only holders of a person's key, and persons with a code that was made at a terminal.
    """
    if console:
        return "console"
    if by.key:
        return "api"
    if not terminal:
        raise Fault("PERSON_REQUIRED", "an answer needs a person at a terminal", hint="answer in `interlock watch`")
    return "terminal"


def _shown_rule(rule: Rule) -> RuleRow:
    return RuleRow(
        id=rule.id,
        agent=rule.asker,
        agent_kind=rule.asker_kind,
        target=rule.shown,
        explained=rule.explain(),
        calls=[*rule.calls.values()],
        decisions=rule.decisions,
        made_by=rule.made_by,
        made_at=_instant(rule.made_at),
    )


def _instant(at: int) -> datetime:
    return datetime.fromtimestamp(at // 1000, UTC)


class ListDecisions(msgspec.Struct):
    """Which approval requests to list."""

    all: bool = False
    """Also those that are answered or expired."""
    most: Annotated[int, Meta(ge=1, le=MAX_OPEN + MAX_KEPT)] | None = None
    """Only so many of them, the first in their order. Without it, the API lists 200, and the control socket all."""
    first: Annotated[int, Meta(ge=0, le=MAX_OPEN + MAX_KEPT)] = 0
    """The place to begin at, such as `next` of the answer before."""
    order: Order = "oldest"
    """`newest`, or `turns` for the oldest request of every asker, then the second oldest, and so on."""
    kind: Text = ""
    """Only requests of this kind."""
    server: Text = ""
    """Only requests about this server."""
    ids: Text = ""
    """Only requests with these ids, with commas between them."""
    follow: ControlFlag = False

    def wants(self, decision: Decision) -> bool:
        """Whether a request is of the kind and the server that are asked for."""
        request = decision.request
        return self.kind in ("", request.kind) and self.server in ("", request.server)


class NamedApproval(msgspec.Struct):
    """An approval request or a rule, by its id."""

    id: Text


class GiveAnswer(msgspec.Struct):
    """A person's answer."""

    id: Text
    answer: Literal["once", "always", "no"]
    view: Text = ""
    """To approve: the `view_hash` of the request. It shows that the person has opened the full view."""
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""
    """Why it is denied, for the agent that asked and for the audit log."""
    to: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    """To fulfil a proposal in a room: the participant to ask, where the proposal names none."""
    passphrase: Secret = ""
    """To approve, where the hub has a passphrase."""
    terminal: ControlFlag = False
    console: ControlFlag = False


class MakeRule(msgspec.Struct):
    """The approval request that becomes a rule."""

    decision: Text
    passphrase: Secret = ""
    """Where the hub has one."""
    terminal: ControlFlag = False


class NewPassphrase(msgspec.Struct):
    """Another passphrase, and the current one."""

    new: Secret
    passphrase: Secret = ""
    terminal: ControlFlag = False


class RemovePassphrase(msgspec.Struct):
    """The current passphrase."""

    passphrase: Secret = ""
    terminal: ControlFlag = False


class PassphraseState(msgspec.Struct):
    """Whether an approval needs the passphrase now."""

    needed: bool


class DecisionRow(msgspec.Struct):
    """An approval request, with its answer if there is one."""

    id: str
    kind: Kind
    state: DecisionState
    asker: str
    asker_kind: str
    server: str
    name: str
    """The tool, permission or other item by its own name."""
    target: str
    question: str
    rule: str
    risk: str
    trust: str
    findings: tuple[str, ...]
    summary: str
    arguments_hash: str
    fingerprint: str
    trace: str
    created: datetime
    deadline: datetime
    answer: Answer
    answered_by: str
    answered_in: Where
    answered_at: datetime | None
    reason: str
    """Why a person denied it."""
    offers_rule: bool
    proposal: str = ""
    """The id of a proposal in a room; `server` names the room."""
    needs_view: bool = False
    """To approve it, the `view_hash` of its full view is needed."""
    view_chars: int = 0
    """The length of the full view."""
    every_time: bool = False
    """Each such call is asked about: the answer `always` is refused, and no rule can be made from it."""
    caller_gone: bool = False
    """The caller gave up waiting. An approval holds for the same call, if it comes again."""


class DecisionRows(msgspec.Struct):
    """Approval requests, in the order that was asked for."""

    decisions: list[DecisionRow]
    total: int = 0
    """How many there are, also beyond `most`. Of more than 500, some may just have ended."""
    next: int | None = None
    """Where the next part begins; null at the end."""


class OneDecision(msgspec.Struct):
    """One approval request."""

    decision: DecisionRow
    view: str | None = None
    """The arguments in full, with masked secrets, while the request is open."""
    view_hash: str | None = None
    last_approved: str | None = None
    """The `summary` of the last approved request of the same asker for the same target, to compare with."""
    equals_last_approved: bool | None = None
    """Whether the arguments equal those of that request. Equal summaries do not mean it: they are cut and redacted."""
    is_own: bool = False
    """Whether this is a request of the principal that looks at it, who cannot answer it."""
    response: msgspec.Raw | None = None
    """The response to the request that fulfilled a proposal, if it came within 30 seconds."""


class RuleRow(msgspec.Struct):
    """A rule: calls that need no approval."""

    id: str
    agent: str
    agent_kind: str
    target: str
    explained: str
    calls: list[str]
    decisions: tuple[str, ...]
    made_by: str
    made_at: datetime


class RuleRows(msgspec.Struct):
    """Every rule."""

    rules: list[RuleRow]


class MadeRule(msgspec.Struct):
    """The new rule."""

    rule: RuleRow


class RevokedRule(msgspec.Struct):
    """The deleted rule."""

    revoked: RuleRow
