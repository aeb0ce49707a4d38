"""The life of a proposal, who may do what, and the bounds of what a topic remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.ledger import LedgerBounds, ProposalLedger
from interlock.protocols.mcpx.proposals import TRANSITIONS, ProposalEvent, ProposalState, mermaid, step
from interlock.protocols.mcpx.recent import RecentValues

from .vectors import envelope

CALL = CapabilitySet(["mcp/request:tools/call"])


def proposal(id: str = "p", sender: str = "agent", kind: str = "mcp/proposal:tools/call:x") -> Envelope:
    return envelope(kind, sender, id=id)


def request(sender: str = "human", kind: str = "mcp/request:tools/call:x", about: str | None = "p") -> Envelope:
    return envelope(kind, sender, correlation_id=about)


def about(kind: str, sender: str, id: str = "p") -> Envelope:
    return envelope(kind, sender, correlation_id=id)


@pytest.fixture
def ledger() -> ProposalLedger:
    opened = ProposalLedger(LedgerBounds(lifetime=10))
    opened.propose(proposal(), "principal-a", 0)
    return opened


def reason(attempt: object) -> RefusalReason:
    assert callable(attempt)
    with pytest.raises(EnvelopeRefused) as caught:
        attempt()
    assert caught.value.fix
    return caught.value.reason


def test_every_state_but_open_is_final() -> None:
    assert set(TRANSITIONS) == set(ProposalState)
    assert set(TRANSITIONS[ProposalState.OPEN]) == set(ProposalEvent)
    assert not any(row for state, row in TRANSITIONS.items() if state is not ProposalState.OPEN)
    assert ProposalState.OPEN not in {after for row in TRANSITIONS.values() for after in row.values()}
    assert mermaid().count("open -->") == 4


def test_the_first_fulfilment_wins(ledger: ProposalLedger) -> None:
    first = request()
    done = ledger.fulfil(first, "principal-b", 1)
    assert done is not None
    assert (done.state, done.ended_by, done.request_id) == (ProposalState.FULFILLED, "human", first.id)
    assert reason(lambda: ledger.fulfil(request("other"), "principal-c", 1)) is RefusalReason.PROPOSAL_ALREADY_FULFILLED
    with pytest.raises(EnvelopeRefused):
        step(done, ProposalEvent.FULFIL)


def test_a_request_that_names_no_proposal_is_no_fulfilment(ledger: ProposalLedger) -> None:
    assert ledger.fulfil(request(about="another envelope"), "principal-b", 1) is None
    assert ledger.fulfil(request(about=None), "principal-b", 1) is None
    assert len(ledger) == 1


def test_a_proposer_or_its_principal_cannot_fulfil(ledger: ProposalLedger) -> None:
    assert reason(lambda: ledger.fulfil(request("agent"), "principal-z", 1)) is RefusalReason.OWN_PROPOSAL
    assert reason(lambda: ledger.fulfil(request("sibling"), "principal-a", 1)) is RefusalReason.OWN_PROPOSAL
    assert ledger.fulfil(request("human"), "principal-b", 1) is not None


@pytest.mark.parametrize("kind", ["mcp/request:tools/call:y", "mcp/request:tools/list", "mcp/request:prompts/get:x"])
def test_a_request_for_another_operation_is_no_fulfilment(ledger: ProposalLedger, kind: str) -> None:
    assert reason(lambda: ledger.fulfil(request(kind=kind), "principal-b", 1)) is RefusalReason.PROPOSAL_MISMATCH
    assert len(ledger) == 1


def test_a_fulfilment_may_leave_the_context_out(ledger: ProposalLedger) -> None:
    assert ledger.fulfil(request(kind="mcp/request:tools/call"), "principal-b", 1) is not None


def test_only_the_proposer_withdraws(ledger: ProposalLedger) -> None:
    assert reason(lambda: ledger.withdraw(about("mcp/withdraw", "human"), 1)) is RefusalReason.NOT_THE_PROPOSER
    assert ledger.withdraw(about("mcp/withdraw", "agent"), 1).state is ProposalState.WITHDRAWN
    assert reason(lambda: ledger.fulfil(request(), "principal-b", 1)) is RefusalReason.PROPOSAL_WITHDRAWN
    assert reason(lambda: ledger.withdraw(about("mcp/withdraw", "agent"), 1)) is RefusalReason.PROPOSAL_WITHDRAWN


def test_whoever_could_fulfil_may_reject(ledger: ProposalLedger) -> None:
    def reject(sender: str, principal_id: str, capabilities: CapabilitySet) -> object:
        return ledger.reject(about("mcp/reject", sender), principal_id, capabilities, 1)

    nothing = CapabilitySet(["mcp/proposal:*", "chat"])
    assert reason(lambda: reject("human", "principal-b", nothing)) is RefusalReason.CANNOT_REJECT
    assert (
        reason(lambda: reject("human", "principal-b", CapabilitySet(["mcp/request:tools/call:y"])))
        is RefusalReason.CANNOT_REJECT
    )
    assert reason(lambda: reject("agent", "principal-a", CALL)) is RefusalReason.CANNOT_REJECT
    assert reason(lambda: reject("sibling", "principal-a", CALL)) is RefusalReason.CANNOT_REJECT
    reject("human", "principal-b", CALL)
    assert reason(lambda: ledger.fulfil(request(), "principal-b", 1)) is RefusalReason.PROPOSAL_REJECTED


@pytest.mark.parametrize("kind", ["mcp/withdraw", "mcp/reject"])
def test_a_proposal_that_nobody_made_cannot_be_ended(ledger: ProposalLedger, kind: str) -> None:
    ending = about(kind, "human", "nothing")
    end = (
        (lambda: ledger.withdraw(ending, 1))
        if kind == "mcp/withdraw"
        else (lambda: ledger.reject(ending, "b", CALL, 1))
    )
    assert reason(end) is RefusalReason.UNKNOWN_PROPOSAL


def test_a_proposal_expires_whether_or_not_anyone_looked(ledger: ProposalLedger) -> None:
    assert ledger.fulfil(request(), "principal-b", 9.9) is not None
    ledger.propose(proposal("q"), "principal-a", 5)
    late = ledger.find("q", 15)
    assert late is not None
    assert late.state is ProposalState.EXPIRED
    assert reason(lambda: ledger.fulfil(request(about="q"), "principal-b", 15)) is RefusalReason.PROPOSAL_EXPIRED
    assert len(ledger) == 0


def test_expiry_gives_back_what_expired_once(ledger: ProposalLedger) -> None:
    ledger.propose(proposal("q"), "principal-a", 5)
    assert [ended.id for ended in ledger.expire(12)] == ["p"]
    assert [ended.id for ended in ledger.expire(20)] == ["q"]
    assert ledger.expire(20) == []


def test_expiry_gives_back_what_was_found_to_have_expired_in_between(ledger: ProposalLedger) -> None:
    ledger.propose(proposal("q"), "principal-a", 11)
    assert reason(lambda: ledger.fulfil(request(about="q"), "principal-b", 30)) is RefusalReason.PROPOSAL_EXPIRED
    assert [ended.id for ended in ledger.expire(30)] == ["p", "q"]


def test_the_answer_to_a_fulfilment_finds_the_proposer(ledger: ProposalLedger) -> None:
    fulfilment = request()
    ledger.fulfil(fulfilment, "principal-b", 1)
    response = envelope("mcp/response:tools/call:x", "target", correlation_id=fulfilment.id)
    assert ledger.proposer_answered_by(response, 2) == "agent"
    assert ledger.proposer_answered_by(about("mcp/response:tools/call:x", "target"), 2) is None


def test_t36_open_proposals_are_bounded_per_principal_and_per_topic() -> None:
    ledger = ProposalLedger(LedgerBounds(lifetime=10, open_per_principal=2, open=3))
    ledger.propose(proposal("1"), "a", 0)
    ledger.propose(proposal("2", "agent~2"), "a", 0)
    for id_ in ("agent", "agent~2", "agent~3"):
        assert reason(lambda id_=id_: ledger.propose(proposal("3", id_), "a", 0)) is RefusalReason.TOO_MANY_PROPOSALS
    ledger.propose(proposal("3", "other"), "b", 0)
    assert reason(lambda: ledger.propose(proposal("4", "third"), "c", 0)) is RefusalReason.TOO_MANY_PROPOSALS
    ledger.withdraw(about("mcp/withdraw", "agent", "1"), 1)
    ledger.propose(proposal("4", "third"), "c", 1)
    ledger.propose(proposal("5"), "a", 10)


def test_nobody_makes_a_topic_forget_that_anothers_proposal_was_fulfilled() -> None:
    ledger = ProposalLedger(LedgerBounds(ended_per_proposer=4, ended=100))
    ledger.propose(proposal(), "principal-a", 0)
    ledger.fulfil(request(), "principal-b", 1)
    for at in range(50):
        ledger.propose(proposal(f"spam-{at}", "mallory"), "m", 2)
        ledger.withdraw(about("mcp/withdraw", "mallory", f"spam-{at}"), 2)
    assert reason(lambda: ledger.fulfil(request("other"), "principal-c", 3)) is RefusalReason.PROPOSAL_ALREADY_FULFILLED
    assert ledger.find("spam-0", 3) is None


def test_a_sender_over_its_share_loses_its_own_oldest_entries() -> None:
    recent: RecentValues[int] = RecentValues(window=10, per_sender=2, total=3)
    recent.add("a1", 1, "a", 0)
    for at in range(3):
        recent.add(f"b{at}", at, "b", 1)
    assert recent.get("a1", 1) == 1
    assert [recent.get(f"b{at}", 1) for at in range(3)] == [None, 1, 2]
    recent.add("c", 9, "c", 2)
    assert recent.get("a1", 2) is None, "in total the oldest goes"
    assert len(recent) == 3


def test_entries_are_forgotten_when_their_time_has_passed() -> None:
    recent: RecentValues[int] = RecentValues(window=10, per_sender=9, total=9)
    recent.add("a", 1, "x", 0)
    assert recent.get("a", 9.9) == 1
    assert recent.get("a", 10) is None
    recent.add("b", 2, "x", 11)
    assert len(recent) == 1


@each_case(("window", "per_sender", "total"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_memory_without_bounds_is_not_made(window: float, per_sender: int, total: int) -> None:
    with pytest.raises(ValueError):
        RecentValues(window, per_sender, total)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 3)), max_size=60),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_what_is_remembered_agrees_with_a_list(steps: list[tuple[str, int, int]], per_sender: int, total: int) -> None:
    """The model: a list of entries in order, searched and pruned one by one."""
    recent: RecentValues[str] = RecentValues(5, per_sender, total)
    kept: list[tuple[str, str, float]] = []
    now = 0.0
    for sender, number, pause in steps:
        now += pause
        kept = [entry for entry in kept if now < entry[2]]
        key = str(number)
        if not any(entry[0] == key for entry in kept):
            kept.append((key, sender, now + 5))
            own = [entry for entry in kept if entry[1] == sender]
            if len(own) > per_sender:
                kept.remove(own[0])
            elif len(kept) > total:
                kept.pop(0)
        recent.add(key, key, sender, now)
        assert {str(key) for key in range(10) if recent.get(str(key), now)} == {entry[0] for entry in kept}
        assert len(recent) <= total
