"""How a person looks at the inbox and answers: the methods about decisions and rules, for the terminal and the API.

Whoever reaches these was checked to have the right to. An answer needs a person: over the control socket, one at a
terminal, since a program that acts for them is not them; over the API, the holder of a person's key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from interlock.hub.approvals.decision import Decision, Where
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.rules import Rule
from interlock.hub.auth.principals import Principal
from interlock.hub.permissions.access_methods import read
from interlock.hub.store_faults import fault_of
from interlock.store import StoreError
from interlock.wire.errors import Fault

Method = Callable[[bytes], Awaitable[object]]


class ApprovalOperations:
    """The methods of one inbox, for one principal in one place."""

    def __init__(self, inbox: Inbox, person: Principal, where: Where) -> None:
        self._inbox = inbox
        self._person = person
        self._where = where
        self.methods: dict[str, Method] = {
            "hub/approvals.list": _told(self._list),
            "hub/approvals.show": _told(self._show),
            "hub/approvals.answer": _told(self._answer),
            "hub/rules.list": _told(self._rules),
            "hub/rules.make": _told(self._make_rule),
            "hub/rules.revoke": _told(self._revoke_rule),
        }

    def follow(self, tell: Callable[[dict[str, object]], None]) -> Callable[[], None]:
        """Hear of every decision that changes, being there to answer. Gives the way to stop."""
        return self._inbox.watch(lambda decision: tell(self._shown(decision)))

    async def _list(self, params: bytes) -> object:
        found = self._inbox.all(only_open=not read(params, ListDecisions).all)
        return {"decisions": [self._shown(decision) for decision in found]}

    async def _show(self, params: bytes) -> object:
        return {"decision": self._shown(self._inbox.get(read(params, Named).id))}

    async def _answer(self, params: bytes) -> object:
        asked = read(params, GiveAnswer)
        self._attended(asked.terminal)
        after = await self._inbox.answer(asked.id, asked.answer, self._person, self._where)
        return {"decision": self._shown(after)}

    async def _rules(self, params: bytes) -> object:
        return {"rules": [_shown_rule(rule) for rule in self._inbox.rules()]}

    async def _make_rule(self, params: bytes) -> object:
        asked = read(params, MakeRule)
        self._attended(asked.terminal)
        rule = await self._inbox.make_rule(asked.decision, self._person)
        return {"rule": _shown_rule(rule)}

    async def _revoke_rule(self, params: bytes) -> object:
        rule = await self._inbox.revoke_rule(read(params, Named).id, self._person)
        return {"revoked": _shown_rule(rule)}

    def _attended(self, terminal: bool) -> None:
        if self._where == "terminal" and not terminal:
            raise Fault("ACCESS_DENIED", "an answer needs a person at a terminal", hint="answer in `interlock watch`")

    def _shown(self, decision: Decision) -> dict[str, object]:
        asked = decision.question
        return {
            "id": decision.id,
            "kind": asked.kind,
            "state": decision.state.value,
            "asker": asked.asker,
            "asker_kind": asked.asker_kind,
            "server": asked.server,
            "target": asked.shown,
            "question": asked.text,
            "rule": asked.rule,
            "risk": asked.risk,
            "trust": asked.trust,
            "findings": list(asked.findings),
            "summary": asked.summary,
            "arguments_hash": asked.arguments_hash,
            "fingerprint": asked.fingerprint,
            "trace": asked.trace,
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


def _told(method: Method) -> Method:
    async def answer(params: bytes) -> object:
        try:
            return await method(params)
        except StoreError as cause:
            raise fault_of(cause) from None

    return answer


class ListDecisions(msgspec.Struct):
    """Which decisions to list: those that are open, or all."""

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
