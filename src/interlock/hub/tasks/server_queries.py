"""Queries servers about tasks: finds the connection, and checks that the server still means the same task.

A server that lost its tasks may use an id again. So the hub recognises a task by its creation time and checks that
before each request: no principal ever reaches the task of another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from interlock.client.peer import declaring
from interlock.hub.audit.record import Outcome
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.tasks.ledger import StoredTask, TaskLedger
from interlock.hub.tasks.running_task import RunningTask, RunningTasks, TaskLocation, TaskLost, outcome_in
from interlock.hub.tasks.task_notifications import TaskNotifications
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.tasks import TaskState, read_state
from interlock.wire.errors import TABLE, Fault
from interlock.wire.messages import one_line

QUERY_S: Final = 10.0
"""How long a server may take to answer a query."""
NO_TASK: Final = TABLE["INVALID_PARAMS"].mcp
LOST_CONNECTION: Final = frozenset({"UPSTREAM_UNAVAILABLE", "SESSION_UNKNOWN", "OUTCOME_UNKNOWN"})
"""Errors that mean that a connection is lost."""

R = TypeVar("R")


class TaskStates(Protocol):
    """Keeps the states of tasks."""

    running: RunningTasks
    notifications: TaskNotifications

    def observe(self, task: StoredTask, state: TaskState, outcome: Outcome | None = None) -> TaskState:
        """Take a state that the server reported."""

    def lost(self, task: StoredTask) -> None:
        """Note that the server lost the task."""

    def let_go(self, task: StoredTask, running: RunningTask) -> None:
        """Stop counting the task for its server."""


class ServerQueries:
    """Finds the connection for each task."""

    def __init__(self, tracker: TaskStates, ledger: TaskLedger, upstreams: Upstreams) -> None:
        self._tracker = tracker
        self._ledger = ledger
        self._upstreams = upstreams
        self._by_location: dict[TaskLocation, str] = {}
        """The task of a server's id on a connection. A server may use the same id on another connection."""

    @property
    def located(self) -> int:
        """How many tasks the hub knows a connection of."""
        return len(self._by_location)

    def task_at(self, server: str, owner: ConnectionOwner | None, upstream_id: str) -> StoredTask | None:
        """The task that a server means by an id on a connection."""
        return self._ledger.get(self._by_location.get((server, owner, upstream_id), ""))

    async def route(self, task: StoredTask) -> UpstreamConnection:
        """The connection for queries about a task: the one that started it, or a new one of the same kind."""
        running = self._tracker.running.of(task)
        if running.route is not None:
            return running.route
        upstream = self._upstreams.get(task.server)
        if upstream is None:
            raise Fault("SERVER_NOT_READY", f"{task.server} is no longer configured")
        connection_key = (
            ConnectionKey(f"principal:{task.principal_name}", principal=task.principal_name)
            if upstream.share == "principal"
            else None
        )
        async with asyncio.timeout(QUERY_S):
            route = await upstream.open_connection(connection_key)
        known = self._by_location.get((task.server, route.owner, task.upstream_id), task.id)
        if known != task.id or route.connection.modern != task.modern:
            # The server gave the id to another task, or speaks another revision now.
            self._tracker.lost(task)
            raise TaskLost(task)
        self.locate(task, running, route)
        return route

    def locate(self, task: StoredTask, running: RunningTask, route: UpstreamConnection) -> None:
        """Query the task on this connection from now on. Another task with the same id there is lost: ids are unique
        among the tasks of a server, so only a server that lost its tasks uses one again."""
        location = (task.server, route.owner, task.upstream_id)
        before = self._ledger.at_id(self._by_location.get(location, task.id))
        if before is not None and before.id != task.id:
            self._tracker.lost(before)
        running.use_route(route)
        self._by_location[location] = task.id

    def leave(self, task: StoredTask, running: RunningTask) -> None:
        """Query the task on another connection next time."""
        if running.route is not None:
            location = (task.server, running.route.owner, task.upstream_id)
            if self._by_location.get(location) == task.id:
                del self._by_location[location]
            running.use_route(None)

    async def ask(self, task: StoredTask, method: str, params: bytes) -> bytes:
        """Send a request that changes a task. Raises the server's error, or OUTCOME_UNKNOWN for a lost task.

        The hub checks the task first: the request must not reach another task with the same id.
        """

        async def once(route: UpstreamConnection) -> bytes:
            return await route.connection.request(method, params, timeout=QUERY_S)

        return await self.after_check(task, once)

    async def after_check(self, task: StoredTask, ask: Callable[[UpstreamConnection], Awaitable[R]]) -> R:
        """Check the task, then ask on the same connection. When the connection breaks, do both once more."""

        async def checked() -> R:
            await self.check(task)
            return await ask(await self.route(task))

        return await self._twice(task, checked)

    async def check(self, task: StoredTask, params: bytes | None = None) -> bytes:
        """Query the state of a task and return the server's answer. Raises OUTCOME_UNKNOWN for a lost task."""
        if task.lost:
            raise TaskLost(task)
        try:
            answer = await self._state(task, params)
        except Fault as fault:
            if fault.foreign_code != NO_TASK:
                raise
            self._tracker.lost(task)
            raise TaskLost(task) from None
        state = read_state(answer, task.modern)
        if state.id != task.upstream_id or state.created_at != task.created_at:
            # Another creation time means another task: the server lost its tasks and used the id again.
            self._tracker.lost(task)
            raise TaskLost(task)
        self._tracker.observe(task, state, outcome_in(answer) if task.modern else None)
        self._tracker.notifications.notify_if_new(task, answer)
        return answer

    async def _state(self, task: StoredTask, params: bytes | None) -> bytes:
        async def query() -> bytes:
            route = await self.route(task)
            payload = self._params(task, route) if params is None else params
            return await route.connection.request("tasks/get", payload, timeout=QUERY_S)

        return one_line(await self._twice(task, query))

    async def _twice(self, task: StoredTask, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask, and once more on a new connection if the first is lost. Requests about a task are idempotent."""
        for _ in range(2):
            try:
                return await ask()
            except Fault as fault:
                if fault.name not in LOST_CONNECTION or isinstance(fault, TaskLost):
                    raise
            running = self._tracker.running.of(task)
            self._tracker.let_go(task, running)
            self.leave(task, running)
        raise Fault("SERVER_NOT_READY", f"{task.server} cannot be reached", retry_after_ms=2000)

    def _params(self, task: StoredTask, route: UpstreamConnection) -> bytes:
        params = msgspec.json.encode({"taskId": task.upstream_id})
        if not task.modern:
            return params
        return declaring(route.connection.identity, route.connection.revision, params)

    async def stop(self, task: StoredTask, route: UpstreamConnection) -> None:
        """Cancel a task at its server, if that is possible."""
        with contextlib.suppress(Fault):
            await route.connection.request("tasks/cancel", self._params(task, route), timeout=QUERY_S)

    def forget(self, id: str) -> None:
        """Forget a deleted task."""
        for location in [location for location, task in self._by_location.items() if task == id]:
            del self._by_location[location]
