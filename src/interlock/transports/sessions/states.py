"""The life of a session as one table of transitions.

Three rules hold here. Only an event of this table changes a session's state. Ended is final: no event leads out of it,
and the id of an ended session names no other session. A session ends once, by the first event that ends it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from interlock.wire.transitions import next_state


class SessionState(enum.Enum):
    """The states of a session."""

    OPENED = "opened"
    """`initialize` was answered."""
    ACTIVE = "active"
    """The client confirmed with `notifications/initialized`."""
    ENDED = "ended"


class SessionEvent(enum.Enum):
    """The events that change the state."""

    CONFIRM = "confirm"
    """The client sent `notifications/initialized`."""
    LEAVE = "leave"
    """The client ended the session, or its connection was lost."""
    IDLE = "idle"
    """Nobody used the session for long."""
    DISPLACE = "displace"
    """A new session needed its place."""
    TERMINATE = "terminate"
    """An operator ended it."""
    REVOKE = "revoke"
    """The credential that opened it is no longer valid."""
    SHUT_DOWN = "shut_down"
    """The service stops."""


ENDS: Final = (
    SessionEvent.LEAVE,
    SessionEvent.IDLE,
    SessionEvent.DISPLACE,
    SessionEvent.TERMINATE,
    SessionEvent.REVOKE,
    SessionEvent.SHUT_DOWN,
)
"""The events that end a session."""

TRANSITIONS: Final[Mapping[SessionState, Mapping[SessionEvent, SessionState]]] = {
    SessionState.OPENED: {
        SessionEvent.CONFIRM: SessionState.ACTIVE,
        **dict.fromkeys(ENDS, SessionState.ENDED),
    },
    SessionState.ACTIVE: {
        # Some clients confirm twice.
        SessionEvent.CONFIRM: SessionState.ACTIVE,
        **dict.fromkeys(ENDS, SessionState.ENDED),
    },
    SessionState.ENDED: {},
}


def step(state: SessionState, event: SessionEvent) -> SessionState:
    """The state after an event. Raises ImpossibleTransition."""
    return next_state(TRANSITIONS, state, event, "a session")
