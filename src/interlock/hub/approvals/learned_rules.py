"""The rules that a hub learned from answers: finds the rule that covers a request, and changes rules.

Several people may change a rule at once, at several hubs. A change builds on the stored rule, so no answer is lost and
a revoked rule does not come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.rules import RULES, Rule, learn, rule_id
from interlock.hub.auth.principals import Principal
from interlock.hub.repeated_commits import commit
from interlock.store import Mirror, Store, Transaction
from interlock.wire.errors import Fault

MAX_RULES: Final = 10_000

RecordRule = Callable[[Rule, Principal, bool], object]
"""Returns the audit record of a rule that was made (True) or revoked (False), or None."""


class LearnedRules:
    """All rules, following the store."""

    def __init__(self, record: RecordRule) -> None:
        self._record = record
        self._store: Store
        self._rules: Mirror[Rule]
        self.lock = asyncio.Lock()
        """Held by a change of a rule: in this hub, one waits for another."""

    async def start(self, store: Store) -> None:
        """Load the rules."""
        self._store = store
        self._rules = await store.mirror(RULES)

    def all(self) -> list[Rule]:
        """Every rule, the oldest first."""
        return sorted(self._rules.readable(), key=lambda rule: rule.made_at)

    def covering(self, request: ApprovalRequest) -> Rule | None:
        """The rule that allows exactly this call. One that cannot be read allows none."""
        rule = self._rules.lookup(rule_id(request))
        return rule if rule is not None and rule.covers(request) else None

    async def make(self, answer: Decision, by: Principal, now: int) -> Rule:
        """Make a rule from an approval. Raises a `Fault`."""
        async with self.lock:
            return await commit(self._store, lambda change: self.learn(change, answer, by, now))

    async def learn(self, change: Transaction, answer: Decision, by: Principal, now: int) -> Rule:
        """Add an answer to the stored rule, or make one. Raises a `Fault`."""
        known = await change.get(RULES, rule_id(answer.request))
        if known is None and len(self._rules) >= MAX_RULES:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_RULES} rules exist", hint="revoke some first")
        try:
            rule = learn(answer, by.id, now, None if known is None else known.value)
        except ValueError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        change.put(RULES, rule)
        self._add_record(change, rule, by, made=True)
        return rule

    async def revoke(self, id: str, by: Principal) -> Rule:
        """Delete a rule. Raises NOT_FOUND."""

        async def write(change: Transaction) -> Rule:
            found = await change.get(RULES, id)
            if found is None:
                raise Fault("NOT_FOUND", f"no rule {id[:40]!r}", hint="`interlock approvals rules` shows them")
            change.delete(RULES, id)
            self._add_record(change, found.value, by, made=False)
            return found.value

        async with self.lock:
            return await commit(self._store, write)

    def _add_record(self, change: Transaction, rule: Rule, by: Principal, *, made: bool) -> None:
        record = self._record(rule, by, made)
        if record is not None:
            change.record(record)
