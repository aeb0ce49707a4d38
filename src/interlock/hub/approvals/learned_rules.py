"""The rules that a hub learned from answers, in memory: which there are, which covers a question, and the next one."""

from __future__ import annotations

from typing import Final

from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.rules import RULES, Rule, learn, rule_id
from interlock.hub.auth.principals import Principal
from interlock.store import Mirror, Store
from interlock.wire.errors import Fault

MAX_RULES: Final = 10_000


class LearnedRules:
    """All rules, following the store."""

    def __init__(self) -> None:
        self._rules: Mirror[Rule]

    async def start(self, store: Store) -> None:
        """Load the rules."""
        self._rules = await store.mirror(RULES)

    def all(self) -> list[Rule]:
        """Every rule, the oldest first."""
        return sorted(self._rules.values(), key=lambda rule: rule.made_at)

    def get(self, id: str) -> Rule:
        """A rule by its id. Raises NOT_FOUND."""
        rule = self._rules.get(id)
        if rule is None:
            raise Fault("NOT_FOUND", f"no rule {id[:40]!r}", hint="`interlock approvals rules` shows them")
        return rule

    def covering(self, question: Question) -> Rule | None:
        """The rule that allows exactly this call."""
        rule = self._rules.get(rule_id(question))
        return rule if rule is not None and rule.covers(question) else None

    def learn(self, answer: Decision, by: Principal, now: int) -> Rule:
        """The rule that an answer makes, together with one that is there. Raises a `Fault`. Stores nothing."""
        known = self._rules.get(rule_id(answer.question))
        if known is None and len(self._rules) >= MAX_RULES:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_RULES} rules exist", hint="revoke some first")
        try:
            return learn(answer, by.id, now, known)
        except ValueError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
