"""The tasks of a hub, kept in the store and read from memory.

The hub's id of a task does not reveal the server's id, and only its principal can use it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from interlock.process.open_counts import OpenCounts
from interlock.protocols.mcp.tasks import Status, TaskState
from interlock.store import Collection, Mirror, Store
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker


class StoredTask(msgspec.Struct, frozen=True):
    """One task. Its status, times and message are stored only when it ends."""

    id: str
    principal_name: str = msgspec.field(name="owner")
    server: str
    tool: str
    """The name of the called tool at the server."""
    upstream_id: str = msgspec.field(name="theirs")
    """The server's id of the task."""
    modern: bool
    """Whether the task has the form of the stateless era."""
    expires: int
    """When the hub forgets the task, in milliseconds since 1970."""
    ttl_ms: int
    created_at: str
    updated_at: str
    status: Status = "working"
    poll_ms: int | None = None
    message: str | None = None
    trace: str = ""
    intent: int = 0
    """The number of the call's intent in the audit log."""
    lost: bool = False
    """Whether the server no longer knows the task, so that its outcome is unknown."""

    @property
    def state(self) -> TaskState:
        """The state for its principal."""
        return TaskState(
            self.id, self.status, self.created_at, self.updated_at, self.ttl_ms, self.poll_ms, self.message
        )

    def with_state(self, state: TaskState) -> StoredTask:
        """The same task in another state."""
        return msgspec.structs.replace(
            self,
            status=state.status,
            updated_at=state.updated_at,
            poll_ms=state.poll_ms,
            message=state.message,
        )


TASKS: Final = Collection("tasks", StoredTask, key="id", columns=("owner",))


def now_ms() -> int:
    """The wall clock: a task's expiry must mean the same after a restart and on another node."""
    return int(time.time() * 1000)


class TaskLedger:
    """Every task of a hub. For the event loop's thread only, after `begin`."""

    def __init__(
        self, limits: Callable[[], tuple[int, int]], worker: Worker, clock: Callable[[], int] = now_ms
    ) -> None:
        self._limits = limits
        self._worker = worker
        self.clock = clock
        self._store: Store
        self._mirror: Mirror[StoredTask]
        self._known: dict[str, StoredTask] = {}
        self._by_principal: OpenCounts[str] = OpenCounts()
        self._reserved: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._known)

    def new_id(self) -> str:
        """An id for a new task. It names this node and worker."""
        return self._worker.new_id()

    async def begin(self, store: Store) -> None:
        """Load the tasks from the store. One that cannot be read is not found."""
        self._store = store
        self._mirror = await store.mirror(TASKS)
        self._mirror.replay_to(self._on_change)

    # Reading

    def get(self, id: str) -> StoredTask | None:
        """A task by the hub's id, until it expires."""
        task = self._known.get(id)
        return None if task is None or task.expires <= self.clock() else task

    def at_id(self, id: str) -> StoredTask | None:
        """A task by the hub's id, even if it has expired."""
        return self._known.get(id)

    def of(self, principal_name: str) -> list[StoredTask]:
        """The tasks of a principal, oldest first."""
        now = self.clock()
        tasks = (task for task in self._known.values() if task.principal_name == principal_name and task.expires > now)
        return sorted(tasks, key=lambda task: (task.created_at, task.id))

    def expired(self) -> list[StoredTask]:
        """The expired tasks."""
        now = self.clock()
        return [task for task in self._known.values() if task.expires <= now]

    # Quota

    def reserve(self, principal_name: str) -> bool:
        """Reserve quota for a task that a call may become. Returns False when the quota is used up."""
        limit, limit_per_principal = self._limits()
        used = len(self._known) + self._reserved.total()
        if used >= limit or self._by_principal[principal_name] + self._reserved[principal_name] >= limit_per_principal:
            return False
        self._reserved[principal_name] += 1
        return True

    def release(self, principal_name: str) -> None:
        """Release reserved quota: the task exists by now, or there is none."""
        self._reserved[principal_name] -= 1
        if self._reserved[principal_name] <= 0:
            del self._reserved[principal_name]

    # Changing

    async def add(self, task: StoredTask) -> None:
        """Store a new task. Raises StoreError."""
        async with self._store.transaction() as change:
            change.insert(TASKS, task)

    async def put(self, task: StoredTask) -> None:
        """Store the new state of a task."""
        if task.id in self._known:
            async with self._store.transaction() as change:
                change.put(TASKS, task)

    async def drop(self, tasks: Iterable[StoredTask]) -> None:
        """Delete tasks."""
        async with self._store.transaction() as change:
            for task in tasks:
                change.delete(TASKS, task.id)

    def _on_change(self, id: str, task: StoredTask | None) -> None:
        before = self._known.pop(id, None)
        if before is not None:
            self._by_principal.add(before.principal_name, -1)
        if task is not None:
            self._known[id] = task
            self._by_principal.add(task.principal_name)


def full() -> Fault:
    """The error when the quota of tasks is used up."""
    return Fault(
        "RESOURCE_EXHAUSTED",
        "the hub keeps too many tasks",
        hint="wait until some have expired, or raise [hub.limits] tasks and tasks_per_agent",
        retry_after_ms=5000,
    )
