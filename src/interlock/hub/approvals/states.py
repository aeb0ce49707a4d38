"""The life of a decision as one table of transitions.

Three rules hold here. Everything that changes a decision's state is an event in this table. An answer is given once:
only an open decision takes one. Nothing leads back to open or approved: what ended, or was used, is asked anew.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class DecisionState(enum.Enum):
    """The six states."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    VOID = "void"
    USED = "used"


class DecisionEvent(enum.Enum):
    """What can happen to a decision."""

    APPROVE = "approve"
    """A person said yes."""
    DENY = "deny"
    """A person said no."""
    EXPIRE = "expire"
    """Its deadline has passed, answered or not."""
    CHANGE = "change"
    """What it was about is no longer what was asked."""
    USE = "use"
    """What was approved has been done. An approval is good for once."""


TRANSITIONS: Final[Mapping[DecisionState, Mapping[DecisionEvent, DecisionState]]] = {
    DecisionState.OPEN: {
        DecisionEvent.APPROVE: DecisionState.APPROVED,
        DecisionEvent.DENY: DecisionState.DENIED,
        DecisionEvent.EXPIRE: DecisionState.EXPIRED,
        DecisionEvent.CHANGE: DecisionState.VOID,
    },
    DecisionState.APPROVED: {
        DecisionEvent.USE: DecisionState.USED,
        DecisionEvent.EXPIRE: DecisionState.EXPIRED,
        DecisionEvent.CHANGE: DecisionState.VOID,
    },
    DecisionState.DENIED: {},
    DecisionState.EXPIRED: {},
    DecisionState.VOID: {},
    DecisionState.USED: {},
}


class ImpossibleTransition(Exception):
    """An event that the table has no place for."""


def step(state: DecisionState, event: DecisionEvent) -> DecisionState:
    """The state after an event."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ImpossibleTransition(f"{event.value} cannot happen to a decision that is {state.value}") from None


def mermaid() -> str:
    """The table as a diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {DecisionState.OPEN.value}"]
    for state, row in TRANSITIONS.items():
        lines += [f"    {state.value} --> {after.value}: {event.value}" for event, after in row.items()]
    return "\n".join(lines)
