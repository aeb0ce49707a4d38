"""Tasks: calls that outlive the request that began them, in both forms of MCP.

2025-11-25 has tasks in the core (Tasks). The stateless era has the extension `io.modelcontextprotocol/tasks` (SEP-2663,
Tasks Extension). Their messages differ, so this module has one state for both, and reads and writes each form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import PREFIX, members, with_meta
from interlock.protocols.mcp.revisions import R2025_11_25, Revision
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json, decode_json_or
from interlock.wire.names import may_spell

EXTENSION: Final = PREFIX + "tasks"
RELATED: Final = PREFIX + "related-task"
AUGMENTED: Final = "task"
"""The member of a request's params that asks for a task, before the stateless era."""
STATUS_CHANGED: Final = {False: "notifications/tasks/status", True: "notifications/tasks"}
"""The notification of a changed state, by whether the form is the stateless era's."""

Support: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool can be called as a task (2025-11-25, Tasks: Tool-Level Negotiation)."""
Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]

TERMINAL: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})
TRANSITIONS: Final[Mapping[Status, frozenset[Status]]] = {
    "working": frozenset({"input_required", *TERMINAL}),
    "input_required": frozenset({"working", *TERMINAL}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}
"""Where each status may lead (2025-11-25, Tasks: Task Status Lifecycle)."""

OLD_CAPABILITY: Final[Mapping[str, object]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The task capability of a server of 2025-11-25."""


class TaskState(msgspec.Struct, frozen=True):
    """The state of a task that both peers know, in either form."""

    id: str
    status: Status
    created_at: str
    updated_at: str
    ttl_ms: int | None
    poll_ms: int | None = None
    message: str | None = None

    @property
    def over(self) -> bool:
        """Whether the task has ended, so that its state no longer changes."""
        return self.status in TERMINAL

    def to_wire(self, modern: bool) -> dict[str, object]:
        """The state as members of a message, in either form."""
        members: dict[str, object] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttlMs" if modern else "ttl": self.ttl_ms,
        }
        if self.poll_ms is not None:
            members["pollIntervalMs" if modern else "pollInterval"] = self.poll_ms
        if self.message is not None:
            members["statusMessage"] = self.message
        return members


def read_state(raw: bytes, modern: bool) -> TaskState:
    """A task's state from an answer or a notification. Raises UPSTREAM_ERROR for an invalid one."""
    try:
        if modern:
            new = msgspec.json.decode(raw, type=_NewState)
            ttl_ms, poll_ms = new.ttlMs, new.pollIntervalMs
            state: _State = new
        else:
            old = msgspec.json.decode(raw, type=_OldState)
            ttl_ms, poll_ms = old.ttl, old.pollInterval
            state = old
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Fault("UPSTREAM_ERROR", f"the server's state of a task cannot be read: {cause}") from None
    ttl = None if ttl_ms is None else max(0, int(ttl_ms))
    poll = None if poll_ms is None else max(0, int(poll_ms))
    return TaskState(state.taskId, state.status, state.createdAt, state.lastUpdatedAt, ttl, poll, state.statusMessage)


def task_in(result: bytes, modern: bool) -> TaskState | None:
    """The task that an answer to `tools/call` announces; None for any other answer."""
    if not may_spell(result, b"taskId"):
        return None
    if modern:
        return read_state(result, True) if read_members(result).kind == "task" else None
    nested = members(result).get("task")
    return None if nested is None else read_state(bytes(nested), False)


def wanted_ttl(task: msgspec.Raw) -> int | None:
    """The requested time to live of a task, in milliseconds. Raises INVALID_PARAMS."""
    wanted = decode_json(task, _Wanted, "INVALID_PARAMS", "task").ttl
    return None if wanted is None else max(1, int(min(wanted, 1e15)))


def has_tasks(revision: Revision) -> bool:
    """Whether a revision of the handshake era knows tasks."""
    return revision is R2025_11_25


def with_related(payload: bytes, task_id: str) -> bytes:
    """A message's params or result, marked as belonging to a task (2025-11-25, Tasks: Related Task Metadata)."""
    return with_meta(payload, {RELATED: {"taskId": task_id}})


def related_task(payload: bytes) -> str | None:
    """The task that a message says it belongs to."""
    if not may_spell(payload, RELATED.encode()):
        return None
    found = decode_json_or(payload, _Marked, _Marked()).meta.related
    return None if found is None else found.taskId


def task_id_in(params: bytes) -> str:
    """Which task a request is about. Raises INVALID_PARAMS."""
    return decode_json(params, _Named, "INVALID_PARAMS", "taskId").taskId


def unknown_task() -> Fault:
    """The error for an invalid task id. Unknown, foreign and expired tasks get the same error."""
    return Fault("INVALID_PARAMS", "no such task: it is unknown, or it has expired")


def extension_needed() -> Fault:
    """The answer to a client that uses the extension without declaring it (SEP-2663, Capability Negotiation)."""
    return Fault(
        "MISSING_CAPABILITY",
        f"this needs a client that declares the extension {EXTENSION}",
        data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


class _State(msgspec.Struct):
    taskId: str
    status: Status
    createdAt: str
    lastUpdatedAt: str = ""
    statusMessage: str | None = None


class _OldState(_State):
    ttl: float | None = None
    pollInterval: float | None = None


class _NewState(_State):
    ttlMs: float | None = None
    pollIntervalMs: float | None = None


class _Named(msgspec.Struct):
    taskId: str


class _Wanted(msgspec.Struct):
    ttl: float | None = None


class _Meta(msgspec.Struct):
    related: _Named | None = msgspec.field(default=None, name=RELATED)


class _Marked(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
