"""The inbox on a real store against a simple model: whoever answers, by whichever door, whatever happens between."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interlock.hub.admin.approvals import ApprovalOperations, GiveAnswer
from interlock.hub.approvals.decision import DECISIONS, ApprovalRequest, Where
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.passphrase import Passphrase
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.store import Store
from interlock.wire.errors import Fault

VALID_S = 100.0
ASKERS = ("cursor", "ci")
WHO = (
    Principal("person:ada", "person"),
    Principal("bob", "person"),
    Principal("cursor", "agent"),
    Principal("other", "agent"),
    Principal("root", "admin"),
    Principal("ci", "service"),
)


class Known(msgspec.Struct):
    """A decision in the model."""

    asker: str
    arguments: str
    key: int
    deadline: int
    state: DecisionState = DecisionState.OPEN

    def live(self, now: int) -> bool:
        return self.state in (DecisionState.OPEN, DecisionState.APPROVED, DecisionState.DENIED) and now < self.deadline


class InboxMachine(RuleBasedStateMachine):
    """Answered once, by a person who did not ask, in time, and only while the key that asked holds; used once."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="inbox"))
        self.now = 1_000_000
        self.keys = dict.fromkeys(ASKERS, 0)
        self.known: dict[str, Known] = {}
        self.store = self.run(Store.open(self.folder / "hub.db", [DECISIONS, RULES]))
        self.inbox = Inbox(lambda: VALID_S, lambda: self.now, seal=ViewSeal(bytes(32)), still_allowed=self.stands)
        self.run(self.inbox.start(self.store))

    def run(self, work):  # type: ignore[no-untyped-def]
        return self.loop.run_until_complete(work)

    def stands(self, question: ApprovalRequest) -> bool:
        return question.asked_with == str(self.keys[question.asker])

    @rule(asker=st.sampled_from(ASKERS), arguments=st.sampled_from("xy"))
    def ask(self, asker: str, arguments: str) -> None:
        key = self.keys[asker]
        found = self.run(self.inbox.ask(question(asker, arguments, key)))
        same = [id_ for id_, known in self.known.items() if (known.asker, known.arguments) == (asker, arguments)]
        live = [id_ for id_ in same if self.known[id_].live(self.now)]
        good = [id_ for id_ in live if self.known[id_].key == key]
        if good:
            assert found.id == good[-1], "the same question joins the one that is there"
            return
        for id_ in live:
            if self.known[id_].state is not DecisionState.DENIED:
                self.known[id_].state = DecisionState.VOID
        assert found.id not in self.known
        self.known[found.id] = Known(asker, arguments, key, self.now + int(VALID_S * 1000))

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        by=st.sampled_from(WHO),
        where=st.sampled_from(["terminal", "api"]),
        attended=st.booleans(),
        said=st.sampled_from(["once", "no"]),
    )
    def answer(self, data: st.DataObject, by: Principal, where: Where, attended: bool, said: Any) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.known)))
        known = self.known[id_]
        in_time = known.state is DecisionState.OPEN and self.now < known.deadline
        allowed = by.kind == "person" and in_time and (where == "api" or attended)
        by = msgspec.structs.replace(by, key="a key" if where == "api" else "")
        try:
            operations = ApprovalOperations(self.inbox, Passphrase(lambda: "if-set"))
            self.run(operations.answer(by, GiveAnswer(id_, said, terminal=attended), ""))
        except Fault:
            assert not allowed or known.key != self.keys[known.asker]
            if allowed:
                known.state = DecisionState.VOID
        else:
            assert allowed
            assert known.key == self.keys[known.asker]
            known.state = DecisionState.APPROVED if said == "once" else DecisionState.DENIED

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.known)))
        known = self.known[id_]
        approved = known.state is DecisionState.APPROVED and self.now < known.deadline
        used = self.run(self.inbox.use(id_))
        assert used is (approved and known.key == self.keys[known.asker])
        if approved:
            known.state = DecisionState.USED if used else DecisionState.VOID

    @rule(asker=st.sampled_from(ASKERS))
    def lose_key(self, asker: str) -> None:
        self.keys[asker] += 1

    @rule(by=st.integers(1, 60_000))
    def wait(self, by: int) -> None:
        self.now += by

    @rule()
    def sweep(self) -> None:
        self.run(self.inbox.sweep())
        for known in self.known.values():
            if known.state in (DecisionState.OPEN, DecisionState.APPROVED) and self.now >= known.deadline:
                known.state = DecisionState.EXPIRED
            elif known.state in (DecisionState.OPEN, DecisionState.APPROVED) and known.key != self.keys[known.asker]:
                known.state = DecisionState.VOID

    @rule()
    def restart(self) -> None:
        """Open decisions stay open, and used ones stay used."""
        self.run(self.store.close())
        self.store = self.run(Store.open(self.folder / "hub.db", [DECISIONS, RULES]))
        self.inbox = Inbox(lambda: VALID_S, lambda: self.now, seal=ViewSeal(bytes(32)), still_allowed=self.stands)
        self.run(self.inbox.start(self.store))

    @invariant()
    def the_inbox_says_what_the_model_says(self) -> None:
        if hasattr(self, "inbox"):
            assert {id_: self.inbox.get(id_).state for id_ in self.known} == {
                id_: known.state for id_, known in self.known.items()
            }
            answerable = {
                id_
                for id_, known in self.known.items()
                if known.state is DecisionState.OPEN
                and self.now < known.deadline
                and known.key == self.keys[known.asker]
            }
            assert {decision.id for decision in self.inbox.all(only_open=True)} == answerable

    def teardown(self) -> None:
        if hasattr(self, "store"):
            with contextlib.suppress(Exception):
                self.run(self.store.close())
            self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def question(asker: str, arguments: str, key: int) -> ApprovalRequest:
    kind = "agent" if asker == "cursor" else "service"
    asked = ApprovalRequest(
        "tool_call", asker, kind, "files", "delete", "files__delete", "May it?", "ask", "f", arguments
    )
    return msgspec.structs.replace(asked, asked_with=str(key))


TestInboxLife = InboxMachine.TestCase
TestInboxLife.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
