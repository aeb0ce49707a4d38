"""A sweep of the inbox ends what is due, in short turns of the loop however many requests are open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.hub.approvals.decision import DECISIONS, ApprovalRequest, Decision
from interlock.hub.approvals.due_decisions import IN_ONE_TURN, KEPT_S, MAX_KEPT, due_decisions
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.approvals.states import DecisionState
from interlock.store import Store
from turn_meter import metered

NOW = 10**12


def question(name: str) -> ApprovalRequest:
    return ApprovalRequest("permission", "s", "server", "s", name, name, "", "")


def decision(name: str, state: DecisionState, since_deadline_s: int) -> Decision:
    return Decision(name, question(name), 0, NOW - since_deadline_s * 1000, state)


async def test_a_sweep_looks_at_a_bounded_number_of_open_requests_in_a_turn(tmp_path: Path) -> None:
    looked = 0

    def still_allowed(question: ApprovalRequest) -> bool:
        nonlocal looked
        looked += 1
        return True

    store = await Store.open(tmp_path / "hub.db", (DECISIONS, RULES))
    inbox = Inbox(lambda: 600, seal=ViewSeal(bytes(32)), still_allowed=still_allowed)
    await inbox.start(store)
    try:
        await inbox.ask_all(question(f"p{number}") for number in range(1_000))
        before = looked
        with metered(lambda: looked) as meter:
            await inbox.sweep()
            await asyncio.sleep(0)  # The meter looks at the last turn, too.
        assert looked - before == 1_000
        assert meter.most <= IN_ONE_TURN
    finally:
        await store.close()


async def test_a_sweep_finds_what_is_late_refused_and_old() -> None:
    kinds = {
        "late": decision("late", DecisionState.OPEN, 1),
        "approved and late": decision("approved and late", DecisionState.APPROVED, 0),
        "refused": decision("refused", DecisionState.OPEN, -1),
        "open": decision("open", DecisionState.OPEN, -1),
        "old": decision("old", DecisionState.USED, KEPT_S),
        "ended": decision("ended", DecisionState.DENIED, KEPT_S - 1),
        "denied": decision("denied", DecisionState.DENIED, -1),
    }
    due = await due_decisions([*kinds.values()], NOW, lambda question: question.name != "refused")
    assert [one.id for one in due.late] == ["late", "approved and late"]
    assert [one.id for one in due.refused] == ["refused"]
    assert [one.id for one in due.old] == ["old"]
    many = [*kinds.values(), *(decision("used", DecisionState.USED, 5) for _ in range(MAX_KEPT - 5))]
    due = await due_decisions(many, NOW, lambda question: True)
    assert [one.id for one in due.old] == ["old", "ended"], "two more than are kept"
