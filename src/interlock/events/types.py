"""Every event of the hub, as frozen values that msgspec can encode.

An event names its subject and carries few facts: a reader who needs more asks the part that owns them. No event has
arguments or results of calls, or secrets.
"""

from __future__ import annotations

from time import time_ns
from typing import ClassVar, Final, Literal, TypeAlias

import msgspec


def now_us() -> int:
    """The wall clock in microseconds since 1970, as events and audit entries have it."""
    return time_ns() // 1000


class Event(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The members of every event. Events of one type and source arrive in the order in which they were published."""

    sources: ClassVar[str] = ""
    """The sources of this type, for the documentation."""
    numbered_by: ClassVar[Literal["bus", "store", "audit chain"]] = "bus"

    source: str
    """Where the event happened: a server, the audit chain, or a part of the hub."""
    sequence: int
    """Its number: of the entry in the audit chain, of the revision in the store, or else of the bus. Never falls."""
    at: int
    """When it happened, in microseconds since 1970."""


class ServerStateChanged(Event, frozen=True, gc=False):
    """A server changed its state. Published after the audit entry was queued."""

    sources: ClassVar[str] = "a server"

    before: str
    after: str
    reason: str = ""
    """Why, in words; empty where the state says it all."""
    cause: str = ""
    """Why, in one word: a shutdown reason of MGP, `call`, `ready`, `restart_policy`, `exited`,
    `restart_limit_exceeded`, or the name of an error in lower case."""


class ServerHealthChanged(Event, frozen=True, gc=False):
    """The health of a running server changed, as the hub judges it."""

    sources: ClassVar[str] = "a server"

    before: str
    after: str
    """`healthy`, `degraded` or `unhealthy`."""
    reason: str = ""
    """Why, in words; empty for a healthy server."""


class ServerEmitted(Event, frozen=True, gc=False):
    """A server sent an event on one of its own channels, to which the hub had subscribed. It is that server's word."""

    sources: ClassVar[str] = "a server"

    channel: str
    severity: str
    data: msgspec.Raw
    """As the server gave it, within 16 KB."""


class ListChanged(Event, frozen=True, gc=False):
    """The lists of some clients may have changed: a server was listed, or somebody's access changed."""

    sources: ClassVar[str] = "`catalog`"

    server: str = ""
    """The server that was listed; empty where any list may have changed."""
    generation: int = 0
    """The catalog's generation, which is local to this node."""


class ResourceUpdated(Event, frozen=True, gc=False):
    """A server reported a changed resource."""

    sources: ClassVar[str] = "a server"

    uri: str
    """The server's own address of it."""
    connection: str | None = None
    """The private connection that reported it; None for the shared one, whose updates concern everyone."""


class AuditCommitted(Event, frozen=True, gc=False):
    """The audit log has new entries, up to `sequence`: wakes readers that keep a cursor."""

    sources: ClassVar[str] = "an audit chain"
    numbered_by: ClassVar[Literal["bus", "store", "audit chain"]] = "audit chain"

    first: int
    """The first of the new entries."""


class AuditAppended(Event, frozen=True, gc=False):
    """One entry of the audit log was committed. Made only while somebody subscribes to it."""

    sources: ClassVar[str] = "an audit chain"
    numbered_by: ClassVar[Literal["bus", "store", "audit chain"]] = "audit chain"

    event: str
    actor: str
    server: str
    name: str
    result: str
    trace: str
    entry: msgspec.Raw
    """The whole entry as it was written, in JSON."""


class ApprovalChanged(Event, frozen=True, gc=False):
    """An approval request was opened, answered, used or ended. Published after the commit."""

    sources: ClassVar[str] = "`approvals`"
    numbered_by: ClassVar[Literal["bus", "store", "audit chain"]] = "store"

    id: str
    state: str
    kind: str
    asker: str
    server: str
    target: str
    """The exposed name of what the request is about."""


class LogWritten(Event, frozen=True, gc=False):
    """A server, or the hub about one, wrote a log line. Secrets are redacted."""

    sources: ClassVar[str] = "a server, or `hub`"

    stream: str
    text: str


class TaskChanged(Event, frozen=True, gc=False):
    """A server reported on a task of a client."""

    sources: ClassVar[str] = "a server"

    task: str
    """The hub's id of it."""
    status: str


class ToolRequestDecided(Event, frozen=True, gc=False):
    """A request for tools was granted or refused."""

    sources: ClassVar[str] = "`tool_requests`"

    principal: str
    kind: str
    """The kind of principal."""
    body: msgspec.Raw
    """The event for the principal's streams (MGP, Server Push Notifications)."""


class RegistrationDecided(Event, frozen=True, gc=False):
    """A person approved or denied the registration of a server. Published after this hub has acted on it."""

    sources: ClassVar[str] = "`registrations`"

    server: str
    id: str
    """The server's id as its creator wrote it."""
    status: str
    """`approved` or `denied`."""
    created_by: str
    created_kind: str
    decided_by: str
    because: str = ""


class AgentWoken(Event, frozen=True, gc=False):
    """An agent was woken for events that servers pushed. Published after the commit."""

    sources: ClassVar[str] = "`live`"

    agent: str
    wake: str
    """The id of the wake."""
    server: str
    """The server of the first of the events."""
    events: int = 1


class SessionOpened(Event, frozen=True, gc=False):
    """A client of the handshake era opened a session."""

    sources: ClassVar[str] = "`sessions`"

    session: str
    principal: str
    client: str = ""


class SessionEnded(Event, frozen=True, gc=False):
    """A session ended."""

    sources: ClassVar[str] = "`sessions`"

    session: str
    principal: str


class ConfigurationReloaded(Event, frozen=True, gc=False):
    """The configuration was read again. Published after the audit entry was queued."""

    sources: ClassVar[str] = "`configuration`"

    applied: bool
    changed: tuple[str, ...] = ()
    """The servers that were added, changed or removed."""
    problems: tuple[str, ...] = ()


class PolicyChanged(Event, frozen=True, gc=False):
    """Keys, grants, permissions or rules changed: `sequence` is the new policy version, equal on every node."""

    sources: ClassVar[str] = "`policy`"
    numbered_by: ClassVar[Literal["bus", "store", "audit chain"]] = "store"

    collection: str


class Gap(msgspec.Struct, frozen=True):
    """Events of one type and source that a subscription lost. Every lost one lies within these numbers."""

    type: type[Event]
    source: str
    first: int
    last: int


Delivery: TypeAlias = Event | Gap
"""An item that a subscriber reads."""

AnyEvent = (
    AgentWoken
    | ServerStateChanged
    | ServerHealthChanged
    | ServerEmitted
    | ListChanged
    | ResourceUpdated
    | AuditCommitted
    | AuditAppended
    | ApprovalChanged
    | LogWritten
    | TaskChanged
    | ToolRequestDecided
    | RegistrationDecided
    | SessionOpened
    | SessionEnded
    | ConfigurationReloaded
    | PolicyChanged
)
"""For a reader of encoded events: `msgspec.json.decode(data, type=AnyEvent)`."""

EVENTS: Final[tuple[type[Event], ...]] = tuple(Event.__subclasses__())
