"""The index of decisions finds those about one server without a look at all others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.decision_index import DecisionIndex
from interlock.hub.approvals.states import DecisionState
from processor_work import steps_of

LIVE = (DecisionState.OPEN, DecisionState.APPROVED, DecisionState.DENIED)
KINDS = ("permission", "definition")
SERVERS = ("a", "b")
NAMES = ("x", "y")

changes = st.tuples(
    st.sampled_from([str(number) for number in range(6)]),
    st.none()
    | st.tuples(
        st.sampled_from(KINDS), st.sampled_from(SERVERS), st.sampled_from(NAMES), st.sampled_from([*DecisionState])
    ),
)


@given(st.lists(changes, max_size=40))
def test_the_index_finds_what_a_look_at_all_decisions_finds(steps: list[tuple[str, tuple | None]]) -> None:  # type: ignore[type-arg]
    index, known, live = DecisionIndex(), {}, {}
    for id_, told in steps:
        decision = None
        if told is not None:
            kind, server, name, state = told
            decision = Decision(id_, ApprovalRequest(kind, server, "server", server, name, name, "", ""), 0, 9, state)
        before = known.pop(id_, None)
        if before is not None and live.get(before.request.matter) == id_:
            del live[before.request.matter]
        if decision is not None:
            known[id_] = decision
            if decision.state in LIVE:
                live[decision.request.matter] = id_
        index.follow(id_, decision)
        for kind in KINDS:
            for server in SERVERS:
                found = [known[each] for each in live.values()]
                wanted = {each.id for each in found if (each.request.kind, each.request.server) == (kind, server)}
                assert {each.id for each in index.about(kind, server)} == wanted


def index_of(count: int) -> DecisionIndex:
    index = DecisionIndex()
    for number in range(count):
        index.follow(f"{number}", decision(f"{number}", f"s{number}"))
    return index


def decision(id: str, server: str) -> Decision:
    return Decision(
        id, ApprovalRequest("permission", server, "server", server, "x", "x", "", ""), 0, 9, DecisionState.OPEN
    )


def test_a_decision_is_followed_and_found_without_a_look_at_all_others() -> None:
    def work(index: DecisionIndex) -> list[int]:
        asked, answered = decision("new", "s7"), decision("new", "s8")
        return [
            steps_of(lambda: index.follow("new", asked)),
            steps_of(lambda: index.about("permission", "s7")),
            steps_of(lambda: index.open_of("server", "s7")),
            steps_of(lambda: index.of_matter(asked.request.matter)),
            steps_of(lambda: index.follow("new", answered)),
            steps_of(lambda: index.follow("new", None)),
        ]

    assert work(index_of(1_000)) == work(index_of(10))
