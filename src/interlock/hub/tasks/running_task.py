"""The state of a task in this process beyond the stored one, and answers of servers translated for its principal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome, outcome_of
from interlock.hub.sessions.session import Session
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import TaskState
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

MAX_UNSENT: Final = 16
"""Unsent notifications of one task. Only the newest state matters."""

Notify = Callable[[str, bytes], None]
"""Takes a notification's method and params."""


class RunningTask:
    """The state of a task in this process."""

    __slots__ = (
        "checked",
        "counted",
        "followers",
        "notified",
        "route",
        "session",
        "state",
        "ticket",
        "token",
        "unsent",
    )

    def __init__(
        self,
        state: TaskState,
        checked: float,
        route: UpstreamConnection | None = None,
        ticket: Ticket | None = None,
        token: str | None = None,
    ) -> None:
        self.state = state
        self.checked = checked
        self.route = route
        """The connection on which the hub queries the task."""
        self.ticket = ticket
        """The ticket of its call in the audit log, while the outcome is unknown."""
        self.session: Session | None = None
        """The session that its principal last used, for notifications (2025-11-25)."""
        self.token = token
        """The hub's progress token at the server (2025-11-25)."""
        self.followers: dict[object, Notify] = {}
        self.unsent: deque[tuple[str, bytes]] = deque(maxlen=MAX_UNSENT)
        """Notifications for its principal. A `TaskChanged` event wakes the task that sends them."""
        self.notified = state.status
        """The status that its followers know."""
        self.counted = False
        """Whether the task counts for its server, which then stays running."""

    def move(self, state: TaskState) -> None:
        """Take the next state."""
        self.state = state

    def check(self, now: float) -> None:
        """The server reported a state."""
        self.checked = now

    def use_route(self, route: UpstreamConnection | None) -> None:
        """Query the task on this connection from now on; None for another one next time."""
        self.route = route

    def use_session(self, session: Session | None) -> None:
        """Notify its principal in this session; None for none."""
        self.session = session

    def take_ticket(self) -> Ticket | None:
        """The ticket of its call, once: its outcome is known."""
        ticket, self.ticket = self.ticket, None
        return ticket

    def count(self, *, on: bool) -> None:
        """Count for its server, or count no more."""
        self.counted = on

    def notify(self, method: str, params: bytes) -> None:
        """Queue a notification. Its followers know the present status then."""
        self.notified = self.state.status
        self.unsent.append((method, params))


class RunningTasks(dict[str, RunningTask]):
    """By id, the tasks whose state this hub knows."""

    def of(self, task: StoredTask) -> RunningTask:
        """The state of a task in this process. A task of an earlier run has no connection yet."""
        running = self.get(task.id)
        if running is None:
            running = self[task.id] = RunningTask(task.state, float("-inf"))
        return running


TaskLocation = tuple[str, ConnectionOwner | None, str]
"""A server, the owner of a connection to it, and the server's id of a task."""


class ExpectedTask(msgspec.Struct):
    """A task that a call may become. Its progress may arrive before the answer to the call (2025-11-25)."""

    id: str
    server: str
    token: Id
    """The progress token of its principal."""
    session: Session | None
    tool: str
    progress: float = float("-inf")
    """The progress last sent to its principal."""

    def advance(self, progress: float) -> bool:
        """Whether this progress is news for its principal. If so, only more of it is news from now on."""
        advances = progress > self.progress
        self.progress = max(progress, self.progress)
        return advances


def renamed(payload: bytes, task: StoredTask) -> bytes:
    """A server's answer about a task with the hub's id and time to live."""
    fields: dict[str, object] = dict(members(payload))
    fields["taskId"] = task.id
    fields["ttlMs" if task.modern else "ttl"] = task.ttl_ms
    return msgspec.json.encode(fields)


def outcome_in(detailed: bytes) -> Outcome | None:
    """The outcome of a task of the stateless era, from its result or error; None while it has neither."""
    fields = members(detailed)
    if "result" in fields:
        return outcome_of(bytes(fields["result"]))
    if "error" not in fields:
        return None
    try:
        return Outcome("answered", "error", code=msgspec.json.decode(fields["error"], type=_Error).code)
    except msgspec.DecodeError:
        return Outcome("answered", "error")


class TaskLost(Fault):
    """The server lost a task, so its outcome is unknown."""

    def __init__(self, task: StoredTask) -> None:
        super().__init__(
            "OUTCOME_UNKNOWN",
            f"{task.server} no longer knows this task: whether it was carried out is unknown",
            hint="check at the server before you call the tool again; the hub never repeats the call by itself",
        )


class _Error(msgspec.Struct):
    code: int = 0
