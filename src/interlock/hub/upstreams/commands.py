"""Commands for a server and the changes of its state that follow. Each carries its reason (MGP, Graceful Shutdown)."""

from __future__ import annotations

import enum
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerEvent, ServerState
from interlock.wire.errors import Fault

DRAIN_S: Final = 10.0
"""How long open calls may take to finish when a server or the hub stops."""

Verb: TypeAlias = Literal["start", "stop", "drain", "restart"]


class Reason(enum.Enum):
    """Why a server is started or stopped (MGP, Shutdown Reasons)."""

    OPERATOR_REQUEST = "operator_request"
    CONFIGURATION_CHANGE = "configuration_change"
    RESOURCE_LIMIT = "resource_limit"
    IDLE_TIMEOUT = "idle_timeout"
    KERNEL_SHUTDOWN = "kernel_shutdown"


class Command(msgspec.Struct, frozen=True):
    """One command. `stop` ends the server at once, `drain` and `restart` let open calls finish first."""

    verb: Verb
    reason: Reason
    by: Principal = NOBODY
    because: str = ""
    final: bool = False
    """The server was removed, or the hub stops: no later command starts the server."""
    drain_s: float | None = None
    """How long open calls may take to finish; None for the hub's own limit, 0 to ask and wait for nothing."""

    @property
    def suppresses_restart(self) -> bool:
        """Whether the server stays down after it, whatever its restart policy says."""
        return self.final or self.reason in (Reason.OPERATOR_REQUEST, Reason.KERNEL_SHUTDOWN)

    @property
    def keeps_stopped(self) -> bool:
        """Whether a stopped server stays stopped: only an operator, or its removal, changes that."""
        return self.reason is not Reason.OPERATOR_REQUEST and not self.final

    @property
    def forgets_failures(self) -> bool:
        """Whether the failures so far no longer count: a person, or another configuration, may have fixed them."""
        return self.reason in (Reason.OPERATOR_REQUEST, Reason.CONFIGURATION_CHANGE)

    @property
    def explained(self) -> str:
        """The principal of the command, and its reason."""
        who = self.by.id or f"the hub ({self.reason.value})"
        return f"{who}: {self.because}" if self.because else who


class StateChange(msgspec.Struct, frozen=True):
    """A server went from one state to another."""

    before: ServerState
    after: ServerState
    command: Command | None
    """The command that led to it; None if the server itself or a call did."""
    reason: str
    """Why, in one word: the command's reason, `call`, `ready`, `restart_policy`, `exited`, `restart_limit_exceeded`, or
    the name of the error in lower case."""


class Supervised(Protocol):
    """The server that a supervisor keeps running."""

    open_calls: int
    tasks: int

    @property
    def last_use(self) -> float:
        """When it was last in use, by the loop's clock."""

    def use(self, now: float) -> None:
        """The server is in use now."""

    async def drained(self) -> None:
        """Wait until the last open call has ended."""

    def on_state(self, change: StateChange) -> None:
        """Report a change of the state to the hub, and to the parts that follow it."""


def problem_name(problem: Fault) -> str:
    """The name of a server's problem. A handshake without an answer means that the server is gone, and no more."""
    return "UPSTREAM_UNAVAILABLE" if problem.name == "OUTCOME_UNKNOWN" else problem.name


def reason_of(event: ServerEvent, command: Command | None, problem: Fault | None, *, given_up: bool) -> str:
    """The reason of a change in one word. Without a command a start was for a call, and the server ended by itself."""
    if command is not None:
        return command.reason.value
    match event:
        case ServerEvent.READY:
            return "ready"
        case ServerEvent.RETRY:
            return "restart_policy"
        case ServerEvent.FAILED:
            if given_up or problem is None:
                return "restart_limit_exceeded"
            return problem_name(problem).lower()
        case ServerEvent.START:
            return "call"
        case _:
            return "exited"
