"""A decision's life and a rule's reach, against simple models."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cases import each_case
from interlock.hub.approvals.decision import Answer, ApprovalRequest, Decision, Where
from interlock.hub.approvals.rules import MAX_CALLS, learn
from interlock.hub.approvals.states import TRANSITIONS, DecisionEvent, DecisionState, step
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault
from interlock.wire.transitions import ImpossibleTransition

ASKER = Principal("cursor", "agent")
PEOPLE = (Principal("person:ada", "person"), Principal("person:bob", "person"))
ROBOTS = (Principal("other", "agent"), Principal("ci", "service"), Principal("root", "admin"))
DEADLINE = 100


def question(**changes: str) -> ApprovalRequest:
    asked = ApprovalRequest(
        "tool_call", "cursor", "agent", "files", "delete", "files__delete", "May it?", "ask", "f1", "a1"
    )
    return msgspec.structs.replace(asked, **changes)


class DecisionMachine(RuleBasedStateMachine):
    """Any events in any order lead to one answer, of a person, in time, and an approval that is used once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.decision = Decision("a3f", question(), 0, DEADLINE)
        self.answers: list[tuple[str, str]] = []
        self.uses = 0
        self.over = False

    @rule(
        by=st.sampled_from([ASKER, *ROBOTS, *PEOPLE]),
        yes=st.booleans(),
        where=st.sampled_from(["terminal", "api", "client"]),
    )
    def answer(self, by: Principal, yes: bool, where: Where) -> None:
        said: Answer = "once" if yes else "no"
        allowed = by.kind == "person" and not self.answers and not self.over and self.now < DEADLINE
        try:
            self.decision = self.decision.answered(said, by, where, self.now, "")
        except Fault:
            assert not allowed
        else:
            assert allowed
            self.answers.append((by.id, said))

    @rule(event=st.sampled_from([DecisionEvent.EXPIRE, DecisionEvent.CHANGE, DecisionEvent.USE]))
    def happen(self, event: DecisionEvent) -> None:
        approved = [said for _, said in self.answers] == ["once"] and not self.over and not self.uses
        unanswered = not self.answers and not self.over
        possible = approved if event is DecisionEvent.USE else approved or unanswered
        try:
            self.decision = self.decision.after(event)
        except ImpossibleTransition:
            assert not possible
        else:
            assert possible
            self.uses += event is DecisionEvent.USE
            self.over = self.over or event is not DecisionEvent.USE

    @rule(by=st.integers(0, 60))
    def wait(self, by: int) -> None:
        self.now += by

    @invariant()
    def answered_once_and_used_once(self) -> None:
        assert len(self.answers) <= 1
        assert self.uses <= 1
        assert (self.decision.answered_by, self.decision.answer) == (self.answers[0] if self.answers else ("", ""))


TestLife = DecisionMachine.TestCase


@each_case("state", [DecisionState.DENIED, DecisionState.EXPIRED, DecisionState.VOID, DecisionState.USED])
@each_case("event", list(DecisionEvent))
def test_what_is_over_stays_over(state: DecisionState, event: DecisionEvent) -> None:
    with pytest.raises(ImpossibleTransition):
        step(state, event)


def test_nothing_leads_back_to_open() -> None:
    assert all(after is not DecisionState.OPEN for row in TRANSITIONS.values() for after in row.values())


def test_a_person_who_asked_cannot_answer_and_another_can() -> None:
    decision = Decision("a3f", question(asker="person:ada", asker_kind="person"), 0, DEADLINE)
    with pytest.raises(Fault, match="the asker cannot"):
        decision.answered("once", PEOPLE[0], "terminal", 1, "")
    assert decision.answered("once", PEOPLE[1], "terminal", 1, "").state is DecisionState.APPROVED


few = st.sampled_from(["x", "y", "z"])
questions = st.builds(
    question, asker=few, asker_kind=st.sampled_from(["agent", "service"]), server=few, name=few, fingerprint=few,
    arguments_hash=few, kind=st.sampled_from(["tool_call", "changed_tool"]),
)  # fmt: skip


@given(answered=st.lists(questions, min_size=1, max_size=6), asked=questions, data=st.data())
def test_a_learned_rule_never_covers_a_call_that_its_answers_did_not(
    answered: list[ApprovalRequest], asked: ApprovalRequest, data: st.DataObject
) -> None:
    states = data.draw(st.lists(st.sampled_from(list(DecisionState)), min_size=len(answered), max_size=len(answered)))
    answers = [
        Decision(str(number), each, 0, DEADLINE, state=state, answer="once")
        for number, (each, state) in enumerate(zip(answered, states, strict=True))
    ]
    known = None
    approved: set[str] = set()
    for answer in answers:
        try:
            known = learn(answer, "person:ada", 0, known)
        except ValueError:
            assert answer.request.kind != "tool_call" or answer.state not in (
                DecisionState.APPROVED,
                DecisionState.USED,
            )
        else:
            approved.add(answer.request.matter)
    if known is not None and known.covers(asked):
        assert asked.matter in approved
    last = answers[-1]
    if known is not None and last.id in known.decisions:
        assert known.covers(last.request)


def test_a_rule_has_a_bound() -> None:
    *answers, last = (
        Decision(str(number), question(arguments_hash=str(number)), 0, DEADLINE, state=DecisionState.USED)
        for number in range(MAX_CALLS + 1)
    )
    known = None
    for answer in answers:
        known = learn(answer, "person:ada", 0, known)
    with pytest.raises(ValueError, match="at most"):
        learn(last, "person:ada", 0, known)
