"""Operations on approval requests and rules, for the terminal and the admin API. Their callers check the right to.

An answer needs a person: over the control socket one at a terminal, since a program may act for its user; over the API
the holder of a person's key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from interlock.events import Subscription
from interlock.hub.approvals.decision import Decision, Where
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.rules import Rule
from interlock.hub.auth.principals import Principal
from interlock.hub.permissions.access_methods import read
from interlock.wire.errors import Fault

Operation: TypeAlias = Callable[[Principal, bytes, str], Awaitable[object]]
"""Does something for a principal, with its params and a trace id."""


class ApprovalOperations:
    """The operations of one inbox."""

    def __init__(self, inbox: Inbox, where: Where) -> None:
        self._inbox = inbox
        self._where = where
        self.operations: dict[str, Operation] = {
            "approvals.list": self._list,
            "approvals.show": self._show,
            "approvals.answer": self._answer,
            "rules.list": self._rules,
            "rules.make": self._make_rule,
            "rules.revoke": self._revoke_rule,
        }

    def follow(self) -> Subscription:
        """The changes of decisions, for a person who can answer until it is closed."""
        return self._inbox.watch()

    def shown(self, id: str) -> dict[str, object]:
        """A decision for a person to read. Raises NOT_FOUND."""
        return self._shown(self._inbox.get(id))

    async def _list(self, principal: Principal, params: bytes, trace: str) -> object:
        found = self._inbox.all(only_open=not read(params, ListDecisions).all)
        return {"decisions": [self._shown(decision) for decision in found]}

    async def _show(self, principal: Principal, params: bytes, trace: str) -> object:
        return {"decision": self._shown(self._inbox.get(read(params, Named).id))}

    async def _answer(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, GiveAnswer)
        self._check_terminal(request.terminal)
        after = await self._inbox.answer(request.id, request.answer, principal, self._where)
        return {"decision": self._shown(after)}

    async def _rules(self, principal: Principal, params: bytes, trace: str) -> object:
        return {"rules": [_shown_rule(rule) for rule in self._inbox.rules()]}

    async def _make_rule(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, MakeRule)
        self._check_terminal(request.terminal)
        rule = await self._inbox.make_rule(request.decision, principal)
        return {"rule": _shown_rule(rule)}

    async def _revoke_rule(self, principal: Principal, params: bytes, trace: str) -> object:
        rule = await self._inbox.revoke_rule(read(params, Named).id, principal)
        return {"revoked": _shown_rule(rule)}

    def _check_terminal(self, terminal: bool) -> None:
        if self._where == "terminal" and not terminal:
            raise Fault("ACCESS_DENIED", "an answer needs a person at a terminal", hint="answer in `interlock watch`")

    def _shown(self, decision: Decision) -> dict[str, object]:
        question = decision.question
        return {
            "id": decision.id,
            "kind": question.kind,
            "state": decision.state.value,
            "asker": question.asker,
            "asker_kind": question.asker_kind,
            "server": question.server,
            "target": question.shown,
            "question": question.text,
            "rule": question.rule,
            "risk": question.risk,
            "trust": question.trust,
            "findings": list(question.findings),
            "summary": question.summary,
            "arguments_hash": question.arguments_hash,
            "fingerprint": question.fingerprint,
            "trace": question.trace,
            "created": _instant(decision.created),
            "deadline": _instant(decision.deadline),
            "answer": decision.answer,
            "answered_by": decision.answered_by,
            "answered_in": decision.answered_in,
            "answered_at": _instant(decision.answered_at),
            "offers_rule": self._inbox.offers_rule(decision),
        }


def _shown_rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "agent": rule.asker,
        "target": rule.shown,
        "explained": rule.explain(),
        "calls": list(rule.calls.values()),
        "decisions": list(rule.decisions),
        "made_by": rule.made_by,
        "made_at": _instant(rule.made_at),
    }


def _instant(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


class ListDecisions(msgspec.Struct):
    """Which decisions to list: open ones, or all."""

    all: bool = False
    follow: bool = False


class Named(msgspec.Struct):
    """A decision or a rule."""

    id: str


class GiveAnswer(msgspec.Struct):
    """An answer to a decision."""

    id: str
    answer: Literal["once", "always", "no"]
    terminal: bool = False


class MakeRule(msgspec.Struct):
    """The decision that becomes a rule."""

    decision: str
    terminal: bool = False
