"""All tasks of a server: functions that go on after their request was answered (`function_task.py`).

Each task belongs to a principal and lives for its time to live, also after its connection has closed. To any other
principal it does not exist. A full table refuses a new task; no task is dropped before its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from interlock.process.open_counts import OpenCounts
from interlock.server.handlers.function_task import FunctionTask
from interlock.server.requests.listeners import Listeners
from interlock.server.requests.work import Work
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker

PAGE: Final = 100


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks are kept, and for how long."""

    tasks: int = 4096
    """Tasks of all principals together, running or kept for their outcome."""
    per_principal: int = 256
    """Tasks of one principal."""
    ttl_ms: int = 3_600_000
    """How long a task is kept from its creation, unless the client asks for another time."""
    longest_ttl_ms: int = 86_400_000
    """The longest time that a client may ask for."""
    poll_ms: int = 1_000
    """How often clients should poll."""
    held_bytes: int = 64 * 1024 * 1024
    """The size of all kept outcomes together."""


class Tasks:
    """Every task of a server, by its id."""

    def __init__(self, limits: TaskLimits, listeners: Listeners, worker: Worker) -> None:
        self.limits = limits
        self.worker = worker
        self.listeners = listeners
        self._tasks: dict[str, FunctionTask] = {}
        self._by_principal: OpenCounts[str] = OpenCounts()
        self._held_bytes = 0

    def open(self, work: Work, ttl_ms: int | None) -> FunctionTask:
        """Make a task of a call. Raises RESOURCE_EXHAUSTED."""
        limits = self.limits
        if len(self._tasks) >= limits.tasks or self._by_principal[work.principal_name] >= limits.per_principal:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                "too many tasks are kept",
                hint="call it without a task, or wait until some have expired",
                retry_after_ms=5000,
            )
        ttl = min(limits.ttl_ms if ttl_ms is None else ttl_ms, limits.longest_ttl_ms)
        task = FunctionTask(self, work, ttl, limits.poll_ms)
        self._tasks[task.id] = task
        self._by_principal.add(task.principal_name)
        return task

    def get(self, id: str, principal_name: str, modern: bool) -> FunctionTask | None:
        """A task of this principal that was created in this era."""
        task = self._tasks.get(id)
        return task if task is not None and (task.principal_name, task.modern) == (principal_name, modern) else None

    def of(self, principal_name: str) -> Iterator[FunctionTask]:
        """The tasks of a principal that were created in the form of 2025-11-25, the oldest first."""
        return (task for task in self._tasks.values() if task.principal_name == principal_name and not task.modern)

    def hold(self, size: int) -> bool:
        """Reserve space for an outcome. False when none is left."""
        if self._held_bytes + size > self.limits.held_bytes:
            return False
        self._held_bytes += size
        return True

    def close(self) -> None:
        """Stop and forget every task."""
        for task in list(self._tasks.values()):
            self.expire(task)

    def expire(self, task: FunctionTask) -> None:
        """Stop and forget a task."""
        if self._tasks.pop(task.id, None) is None:
            return
        self._held_bytes -= task.held_bytes
        self._by_principal.add(task.principal_name, -1)
        task.expired()
