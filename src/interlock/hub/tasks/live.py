"""What one process knows of a task beyond what is kept, and how a server's word on it reads for its owner."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome, outcome_of
from interlock.hub.tasks.ledger import KeptTask
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import TaskState
from interlock.transports.exchange import Session
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

Tell = Callable[[str, bytes], None]
"""Takes a notification's method and params."""


class LiveTask:
    """What this process knows of a task beyond what is kept."""

    __slots__ = ("followers", "held", "line", "looked", "session", "state", "ticket", "token", "told")

    def __init__(self, state: TaskState, looked: float) -> None:
        self.state = state
        self.looked = looked
        self.line: UpstreamConnection | None = None
        """The connection it was begun on."""
        self.ticket: Ticket | None = None
        """Its place in the record, while its outcome is not known."""
        self.session: Session | None = None
        """Where its owner was last seen, to be told of it there (2025-11-25)."""
        self.token: str | None = None
        """Our progress token for it at the server (2025-11-25)."""
        self.followers: dict[object, Tell] = {}
        self.told = state.status
        """The status that its followers know of."""
        self.held = False
        """Whether its server is kept running for it."""


Place = tuple[str, ConnectionOwner | None, str]
"""A server, whose connection to it, and an id of the server's."""


class Expected(msgspec.Struct):
    """A task that a call is about to become, whose progress may come before anything else of it (2025-11-25)."""

    id: str
    server: str
    token: Id
    """The owner's own progress token."""
    session: Session | None
    reached: float = float("-inf")
    """How far it is, as its owner was told."""


def renamed(payload: bytes, task: KeptTask) -> bytes:
    """A server's word on a task, under our id, with the time that it is kept here."""
    fields: dict[str, object] = dict(members(payload))
    fields["taskId"] = task.id
    fields["ttlMs" if task.modern else "ttl"] = task.ttl_ms
    return msgspec.json.encode(fields)


def outcome_in(detailed: bytes) -> Outcome | None:
    """How a task of the stateless era ended, as its result or its error says; None while neither is there."""
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
    """The truth about a task that its server lost."""

    def __init__(self, task: KeptTask) -> None:
        super().__init__(
            "OUTCOME_UNKNOWN",
            f"{task.server} does not know this task any more: whether it was carried out is unknown",
            hint="find out at the server before calling the tool again; the hub never does so by itself",
        )


class _Error(msgspec.Struct):
    code: int = 0
