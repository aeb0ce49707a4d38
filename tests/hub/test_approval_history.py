"""The index of earlier approvals equals a search through all decisions, whatever happens to them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from interlock.hub.approvals.decision import Answer, ApprovalRequest, Decision
from interlock.hub.approvals.history import ApprovalHistory
from interlock.hub.approvals.states import DecisionState

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, *DecisionState]),
        st.sampled_from(["", "once", "always", "no"]),
    ),
    max_size=40,
)


def question(text: str) -> ApprovalRequest:
    return ApprovalRequest(
        "tool_call", "ann", "agent", "busy", "echo", "busy__echo", "May I?", "ask", arguments_hash=text
    )


def is_approved(decision: Decision) -> bool:
    return bool(decision.answer) and decision.state in (DecisionState.APPROVED, DecisionState.USED)


@given(CHANGES)
def test_the_history_equals_a_search(changes: list[tuple[int, str, DecisionState | None, Answer]]) -> None:
    history, known = ApprovalHistory(), dict[str, Decision]()
    newest: Decision | None = None
    for number, text, state, answer in changes:
        before = known.pop(str(number), None)
        after = None
        if state is not None:
            after = known[str(number)] = (
                Decision(str(number), question(text), 0, 9, state, answer)
                if before is None
                else msgspec.structs.replace(before, state=state, answer=answer)
            )
        history.follow(before, after)
        if after is not None and is_approved(after):
            newest = after
        elif newest is not None and newest.id == str(number):
            newest = None
        for asked in ("a", "b"):
            once = [each for each in known.values() if is_approved(each) and each.answer == "once"]
            expected = sum(each.request.arguments_hash == asked for each in once)
            assert history.times_approved(question(asked)) == expected
        last = history.last_approved(Decision("new", question("a"), 0, 9))
        assert last == newest, "the last approval, while it is known and holds"
