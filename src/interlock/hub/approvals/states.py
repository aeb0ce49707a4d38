"""The life of a decision as one table of transitions.

Three rules hold here. Only an event of this table changes a decision's state. A decision is answered once, while it is
open. No transition leads back to open or approved: after the end, the same request is a new decision.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from interlock.wire.transitions import next_state


class DecisionState(enum.Enum):
    """The seven states."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    VOID = "void"
    USED = "used"
    FULFILLED_ELSEWHERE = "fulfilled_elsewhere"


class DecisionEvent(enum.Enum):
    """The events of a decision."""

    APPROVE = "approve"
    """A person said yes."""
    DENY = "deny"
    """A person said no."""
    EXPIRE = "expire"
    """The deadline has passed, with or without an answer."""
    CHANGE = "change"
    """The target changed, or the asker lost the right to ask."""
    USE = "use"
    """The approved call was made. An approval is used once."""
    FULFIL_ELSEWHERE = "fulfil_elsewhere"
    """A participant of the room fulfilled the proposal."""


TRANSITIONS: Final[Mapping[DecisionState, Mapping[DecisionEvent, DecisionState]]] = {
    DecisionState.OPEN: {
        DecisionEvent.APPROVE: DecisionState.APPROVED,
        DecisionEvent.DENY: DecisionState.DENIED,
        DecisionEvent.EXPIRE: DecisionState.EXPIRED,
        DecisionEvent.CHANGE: DecisionState.VOID,
        DecisionEvent.FULFIL_ELSEWHERE: DecisionState.FULFILLED_ELSEWHERE,
    },
    DecisionState.APPROVED: {
        DecisionEvent.USE: DecisionState.USED,
        DecisionEvent.FULFIL_ELSEWHERE: DecisionState.FULFILLED_ELSEWHERE,
        DecisionEvent.EXPIRE: DecisionState.EXPIRED,
        DecisionEvent.CHANGE: DecisionState.VOID,
    },
    DecisionState.DENIED: {},
    DecisionState.EXPIRED: {},
    DecisionState.VOID: {},
    DecisionState.USED: {},
    DecisionState.FULFILLED_ELSEWHERE: {},
}


def step(state: DecisionState, event: DecisionEvent) -> DecisionState:
    """The state after an event. Raises ImpossibleTransition."""
    return next_state(TRANSITIONS, state, event, "a decision")
