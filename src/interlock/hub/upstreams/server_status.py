"""The state of one server: why it changed last, the failure that is shown, and the calls that wait for a change.

`step` is the only place that changes the state. A command is the reason of every change until the server is connected,
down or stopped.
"""

from __future__ import annotations

from datetime import UTC, datetime

from interlock.hub.upstreams.commands import Command, StateChange, Supervised, reason_of
from interlock.hub.upstreams.restart_plan import RestartPlan
from interlock.hub.upstreams.states import ServerEvent, ServerState, step
from interlock.process.wake_signal import WakeSignal
from interlock.wire.errors import Fault


class SupervisedStatus:
    """The status of one server. Its supervisor takes the steps."""

    def __init__(self, upstream: Supervised, plan: RestartPlan) -> None:
        self.state = ServerState.REGISTERED
        self.since = datetime.now(UTC)
        self.problem: Fault | None = None
        """The failure that is shown, until the server is connected again."""
        self.last_change: StateChange | None = None
        self._upstream = upstream
        self._plan = plan
        self._changed = WakeSignal()
        self._cause: Command | None = None
        """The command that the server follows until it is connected, down or stopped."""
        self._next_cause: Command | None = None
        """The start that comes after the drain under way."""

    @property
    def runs(self) -> bool:
        """Whether the server is connected, or about to be."""
        return self.state in (ServerState.CONNECTING, ServerState.CONNECTED, ServerState.RESTARTING)

    def follow(self, command: Command) -> None:
        """A command is the reason of the changes to come. A start of a connected server changes nothing."""
        if command.verb != "start":
            self._cause, self._next_cause = command, None
        elif self.state is ServerState.DRAINING:
            self._next_cause = command
        elif self.state is not ServerState.CONNECTED:
            self._cause = command

    def show(self, problem: Fault | None) -> None:
        """Show this failure from now on, or none."""
        self.problem = problem

    def step(self, event: ServerEvent) -> None:
        """Take an event of the table. Raises ImpossibleTransition."""
        before, self.state = self.state, step(self.state, event)
        self.since = datetime.now(UTC)
        if self.state is ServerState.CONNECTED:
            self.problem = None
            self._plan.on_connected()
        command = None if event is ServerEvent.FAILED else self._cause
        if self.state in (ServerState.CONNECTED, ServerState.ERROR, ServerState.DISCONNECTED):
            self._cause, self._next_cause = self._next_cause, None
        self.wake()
        reason = reason_of(event, command, self.problem, given_up=self._plan.given_up)
        self.last_change = StateChange(before, self.state, command, reason)
        self._upstream.on_state(self.last_change)

    def wake(self) -> None:
        """Wake the calls that wait for the server."""
        changed, self._changed = self._changed, WakeSignal()
        changed.set()

    async def change(self) -> None:
        """Wait until the state changes, or a command wakes the calls that wait."""
        await self._changed.wait()
