"""The states of a server as one table of transitions (MGP, Server State Machine).

Two rules hold. Every change of a server's state is an event in this table; `supervisor.py` applies them.
The table does not know how a server is reached: it is the same for a process and for a URL.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from interlock.wire.transitions import next_state


class ServerState(enum.Enum):
    """The states of a server."""

    REGISTERED = "registered"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DRAINING = "draining"
    DISCONNECTED = "disconnected"
    ERROR = "error"
    RESTARTING = "restarting"


class ServerEvent(enum.Enum):
    """The events that change the state."""

    START = "start"
    """The hub starts the server: at its own start, for the operator, or for the first call."""
    READY = "ready"
    """The handshake is done."""
    FAILED = "failed"
    """The server could not be reached, broke the protocol, or exited."""
    STOP = "stop"
    """The hub ends the server, open calls first."""
    DRAINED = "drained"
    """The last call ended, or the time for draining is over."""
    RETRY = "retry"
    """The restart policy allows another try after its backoff."""
    RESTART = "restart"
    """The operator or a changed configuration restarts the server."""


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


def step(state: ServerState, event: ServerEvent) -> ServerState:
    """The state after an event. Raises ImpossibleTransition."""
    return next_state(TRANSITIONS, state, event, "a server")


def mermaid() -> str:
    """The table as a diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ServerState.REGISTERED.value}"]
    for state, row in TRANSITIONS.items():
        lines += [f"    {state.value} --> {after.value}: {event.value}" for event, after in row.items()]
    return "\n".join(lines)
