"""The life of a server as one table of transitions (MGP, Server State Machine).

Two rules hold here. Everything that changes a server's state is an event in this table. The table does not know how
a server is reached: a process, a URL and a test all go through it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ServerState(enum.Enum):
    """The seven states."""

    REGISTERED = "registered"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DRAINING = "draining"
    DISCONNECTED = "disconnected"
    ERROR = "error"
    RESTARTING = "restarting"


class ServerEvent(enum.Enum):
    """What can happen to a server."""

    START = "start"
    """Someone wants it: at start-up, by the operator, or by the first call where it starts on demand."""
    READY = "ready"
    """The handshake is done."""
    FAILED = "failed"
    """It could not be reached, broke its protocol, or went away."""
    STOP = "stop"
    """It shall finish what it does and go."""
    DRAINED = "drained"
    """Nothing is under way any more, or the time for it is over."""
    RETRY = "retry"
    """The restart policy allows another try, after its backoff."""
    RESTART = "restart"
    """The operator or a changed configuration wants it fresh."""


TRANSITIONS: Final[Mapping[ServerState, Mapping[ServerEvent, ServerState]]] = {
    ServerState.REGISTERED: {ServerEvent.START: ServerState.CONNECTING, ServerEvent.STOP: ServerState.DISCONNECTED},
    ServerState.CONNECTING: {
        ServerEvent.READY: ServerState.CONNECTED,
        ServerEvent.FAILED: ServerState.ERROR,
        ServerEvent.STOP: ServerState.DISCONNECTED,
        ServerEvent.RESTART: ServerState.RESTARTING,
    },
    ServerState.CONNECTED: {
        ServerEvent.FAILED: ServerState.ERROR,
        ServerEvent.STOP: ServerState.DRAINING,
        ServerEvent.RESTART: ServerState.DRAINING,
    },
    ServerState.DRAINING: {
        ServerEvent.DRAINED: ServerState.DISCONNECTED,
        ServerEvent.FAILED: ServerState.DISCONNECTED,
        ServerEvent.RETRY: ServerState.RESTARTING,
    },
    ServerState.DISCONNECTED: {ServerEvent.START: ServerState.CONNECTING},
    ServerState.ERROR: {
        ServerEvent.RETRY: ServerState.RESTARTING,
        ServerEvent.RESTART: ServerState.RESTARTING,
        ServerEvent.START: ServerState.CONNECTING,
        ServerEvent.STOP: ServerState.DISCONNECTED,
    },
    ServerState.RESTARTING: {
        ServerEvent.READY: ServerState.CONNECTED,
        ServerEvent.FAILED: ServerState.ERROR,
        ServerEvent.STOP: ServerState.DISCONNECTED,
        ServerEvent.START: ServerState.RESTARTING,
    },
}


class ImpossibleTransition(Exception):
    """An event that the table has no place for: a fault of the house, not of the server."""


def step(state: ServerState, event: ServerEvent) -> ServerState:
    """The state after an event."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ImpossibleTransition(f"{event.value} cannot happen to a server that is {state.value}") from None


def mermaid() -> str:
    """The table as a diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ServerState.REGISTERED.value}"]
    for state, row in TRANSITIONS.items():
        lines += [f"    {state.value} --> {after.value}: {event.value}" for event, after in row.items()]
    return "\n".join(lines)
