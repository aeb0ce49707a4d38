"""How a person looks at the inbox and answers: the control methods about decisions and rules.

Whoever reaches these was checked to be the user the hub belongs to. An answer also needs them at a terminal: a program
that acts for them is not them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from interlock.hub.decisions.decision import Decision
from interlock.hub.decisions.inbox import Inbox
from interlock.hub.decisions.rules import Rule
from interlock.hub.principals import Principal
from interlock.store import StoreError
from interlock.wire.errors import Fault

Method = Callable[[bytes], Awaitable[object]]


class Answering:
    """The control methods of one inbox, for one person."""

    def __init__(self, inbox: Inbox, person: Principal) -> None:
        self._inbox = inbox
        self._person = person
        self.methods: dict[str, Method] = {
            "hub/decisions.list": _told(self._list),
            "hub/decisions.show": _told(self._show),
            "hub/decisions.answer": _told(self._answer),
            "hub/rules.list": _told(self._rules),
            "hub/rules.make": _told(self._make_rule),
            "hub/rules.revoke": _told(self._revoke_rule),
        }

    def follow(self, tell: Callable[[dict[str, object]], None]) -> Callable[[], None]:
        """Hear of every decision that changes, being there to answer. Gives the way to stop."""
        return self._inbox.watch(lambda decision: tell(self._shown(decision)))

    async def _list(self, params: bytes) -> object:
        found = self._inbox.all(only_open=not _read(params, _List).all)
        return {"decisions": [self._shown(decision) for decision in found]}

    async def _show(self, params: bytes) -> object:
        return {"decision": self._shown(self._inbox.get(_read(params, _Named).id))}

    async def _answer(self, params: bytes) -> object:
        asked = _read(params, _Answer)
        _at_terminal(asked.terminal)
        after = await self._inbox.answer(asked.id, asked.answer, self._person, "terminal")
        return {"decision": self._shown(after)}

    async def _rules(self, params: bytes) -> object:
        return {"rules": [_shown_rule(rule) for rule in self._inbox.rules()]}

    async def _make_rule(self, params: bytes) -> object:
        asked = _read(params, _Make)
        _at_terminal(asked.terminal)
        return {"rule": _shown_rule(await self._inbox.make_rule(asked.decision, self._person))}

    async def _revoke_rule(self, params: bytes) -> object:
        return {"revoked": _shown_rule(await self._inbox.revoke_rule(_read(params, _Named).id))}

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
            "summary": asked.summary,
            "arguments_hash": asked.arguments_hash,
            "fingerprint": asked.fingerprint,
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


def _at_terminal(terminal: bool) -> None:
    if not terminal:
        raise Fault("ACCESS_DENIED", "an answer needs a person at a terminal", mend="answer in `interlock watch`")


def _instant(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def _told(method: Method) -> Method:
    async def answer(params: bytes) -> object:
        try:
            return await method(params)
        except StoreError as cause:
            raise Fault("INTERNAL_ERROR", cause.message, mend=cause.mend) from None

    return answer


class _List(msgspec.Struct):
    all: bool = False
    follow: bool = False


class _Named(msgspec.Struct):
    id: str


class _Answer(msgspec.Struct):
    id: str
    answer: Literal["once", "always", "no"]
    terminal: bool = False


class _Make(msgspec.Struct):
    decision: str
    terminal: bool = False


def _read(params: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
