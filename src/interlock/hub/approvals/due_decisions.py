"""Finds the decisions that a sweep ends or deletes.

It works in short turns of the loop, since the hub may keep tens of thousands of decisions.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.states import DecisionState
from interlock.process.turns import in_turns

KEPT_S: Final = 7 * 86_400
"""How long ended decisions stay, to be read and to learn rules from."""
MAX_KEPT: Final = 20_000
SWEPT_AT_ONCE: Final = 500
"""Upper bound for each list of a sweep."""
IN_ONE_TURN: Final = 200


class DueDecisions(msgspec.Struct, frozen=True):
    """Decisions to change now, each list bounded. The next sweep finds the others."""

    late: list[Decision]
    """Past their deadlines, and not ended."""
    refused: list[Decision]
    """Their askers have lost the right to ask."""
    old: list[Decision]
    """Ended, and kept no longer."""


async def due_decisions(
    known: Sequence[Decision], now: int, still_allowed: Callable[[ApprovalRequest], bool]
) -> DueDecisions:
    """The decisions of a snapshot that are due. A decision may change meanwhile, so the caller checks its state."""
    late: list[Decision] = []
    refused: list[Decision] = []
    ended: list[Decision] = []
    async for one in in_turns(known, IN_ONE_TURN):
        if one.state not in (DecisionState.OPEN, DecisionState.APPROVED):
            if one.deadline <= now:
                ended.append(one)
        elif one.deadline <= now:
            late.append(one)
        elif len(refused) < SWEPT_AT_ONCE and not still_allowed(one.request):
            refused.append(one)
    surplus = min(max(0, len(known) - MAX_KEPT), SWEPT_AT_ONCE)
    # Selecting among tens of thousands takes longer than one turn may.
    oldest = await asyncio.to_thread(heapq.nsmallest, SWEPT_AT_ONCE, ended, key=lambda one: one.deadline)
    old = [one for place, one in enumerate(oldest) if place < surplus or one.deadline + KEPT_S * 1000 <= now]
    return DueDecisions(late[:SWEPT_AT_ONCE], refused, old)
