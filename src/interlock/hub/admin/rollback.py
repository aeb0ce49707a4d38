"""Operations that take back what a conversation changed: first the plan, then exactly that plan."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from interlock.hub.admin.operation import Text
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

TurnIndex = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class PlanRollback(msgspec.Struct):
    """From which turn of a conversation on everything is taken back."""

    id: Text
    turn: TurnIndex | None = None
    """The first turn that is taken back; unset: the newest."""


class RunRollback(PlanRollback):
    """The plan that was shown."""

    plan: Text = ""
    """Its digest: a plan that has changed is not run."""
    go_on: bool = False
    """Whether later steps are tried after one that failed."""


class RollbackStep(msgspec.Struct):
    """The state of one feature set, and the checkpoint that it goes back to."""

    server: str
    feature_set: str
    at: str
    to: str
    possible: bool
    reason: str
    """Why it cannot be taken back, or was not."""
    turns: list[int]
    """The turns that changed it."""


class LastingCall(msgspec.Struct):
    """A tool call that nothing takes back."""

    turn: int
    tool: str


class RollbackPlan(msgspec.Struct):
    """Everything from one turn on: what can be taken back, newest first, and what cannot."""

    conversation: str
    first: int
    steps: list[RollbackStep]
    lasting: list[LastingCall]
    digest: str


class RollbackDone(msgspec.Struct):
    """The outcome of each step."""

    conversation: str
    steps: list[RollbackStep]
    complete: bool


class RollbackHost(Protocol):
    """The host of the hub."""

    async def plan_rollback(self, conversation: str, turn: int | None) -> RollbackPlan:
        """The changes that would be taken back. Raises NOT_FOUND."""

    async def roll_back(self, conversation: str, turn: int | None, plan: str, *, go_on: bool) -> RollbackDone:
        """Take it back. Raises a `Fault` for a plan that has changed."""


class RollbackOperations:
    """The operations on the state of conversations."""

    def __init__(self, host: RollbackHost | None) -> None:
        self._host = host

    async def plan(self, by: Principal, params: PlanRollback, trace: str) -> RollbackPlan:
        """List the changes that can and cannot be taken back."""
        return await self._ready().plan_rollback(params.id, params.turn)

    async def run(self, by: Principal, params: RunRollback, trace: str) -> RollbackDone:
        """Take back what the plan shows."""
        return await self._ready().roll_back(params.id, params.turn, params.plan, go_on=params.go_on)

    def _ready(self) -> RollbackHost:
        if self._host is None:
            raise no_conversations()
        return self._host


def no_conversations() -> Fault:
    """The error of a hub without a host."""
    return Fault("SERVER_NOT_READY", "this hub has no conversations")
