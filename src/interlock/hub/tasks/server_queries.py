"""Asking servers about tasks: on which connection, and whether what answers there is still the task that is meant.

A server that lost what it had may use an id again. So a task is only ever asked for where it was just seen, and is
known by when it was created: nobody is led to another principal's task, and nothing is sent to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from interlock.client.peer import declaring
from interlock.hub.audit.record import Outcome
from interlock.hub.tasks.ledger import KeptTask, Ledger
from interlock.hub.tasks.live import LiveTask, Place, TaskLost, outcome_in
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.sharing import ConnectionKey
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.tasks import TaskState, read_state
from interlock.wire.errors import TABLE, Fault
from interlock.wire.messages import one_line

LOOK_S: Final = 10.0
"""How long a server may take to say where a task stands."""
NO_TASK: Final = TABLE["INVALID_PARAMS"].mcp
GONE: Final = frozenset({"UPSTREAM_UNAVAILABLE", "SESSION_UNKNOWN", "OUTCOME_UNKNOWN"})
"""What says that a line leads nowhere any more."""

R = TypeVar("R")


class Keeps(Protocol):
    """Whoever takes note of what becomes of tasks."""

    def live(self, task: KeptTask) -> LiveTask:
        """What is known of a task here."""

    def observe(self, task: KeptTask, said: TaskState, outcome: Outcome | None = None) -> TaskState:
        """Its server told where it stands."""

    def tell_if_new(self, task: KeptTask, said: bytes) -> None:
        """Whoever follows it may not know that yet."""

    def lost(self, task: KeptTask) -> None:
        """Its server does not know it."""

    def let_go(self, task: KeptTask, live: LiveTask) -> None:
        """Its server need not be kept for it any longer."""


class ServerQueries:
    """Finds the connection that leads to each task."""

    def __init__(self, tracker: Keeps, ledger: Ledger, upstreams: Upstreams) -> None:
        self._tracker = tracker
        self._ledger = ledger
        self._upstreams = upstreams
        self._places: dict[Place, str] = {}
        """Which task is meant by a server's id on a connection. A server may use the same id on another one."""

    def task_at(self, server: str, owner: ConnectionOwner | None, theirs: str) -> KeptTask | None:
        """The task that a server means by an id, on a connection."""
        return self._ledger.get(self._places.get((server, owner, theirs), ""))

    async def line(self, task: KeptTask) -> UpstreamConnection:
        """The connection to ask on: the one it was begun on, or where that is gone, one like it."""
        live = self._tracker.live(task)
        if live.line is not None:
            return live.line
        upstream = self._upstreams.get(task.server)
        if upstream is None:
            raise Fault("SERVER_NOT_READY", f"{task.server} is not configured any more")
        connection_key = ConnectionKey(f"principal:{task.owner}") if upstream.share == "principal" else None
        line = await asyncio.wait_for(upstream.open_connection(connection_key), LOOK_S)
        taken = self._places.get((task.server, line.owner, task.theirs), task.id)
        if taken != task.id or line.connection.modern != task.modern:
            # The server is not what it was: it gave the id to another task, or speaks another revision.
            self._tracker.lost(task)
            raise TaskLost(task)
        self.place(task, live, line)
        return line

    def place(self, task: KeptTask, live: LiveTask, line: UpstreamConnection) -> None:
        """This is where the task is asked for. Another one in this very place is not there any more: an id is unique
        among the tasks of a server, so that it can only be used again by one that lost what it had."""
        place = (task.server, line.owner, task.theirs)
        before = self._ledger.at_id(self._places.get(place, task.id))
        if before is not None and before.id != task.id:
            self._tracker.lost(before)
        live.line = line
        self._places[place] = task.id

    def leave(self, task: KeptTask, live: LiveTask) -> None:
        if live.line is not None:
            place = (task.server, live.line.owner, task.theirs)
            if self._places.get(place) == task.id:
                del self._places[place]
            live.line = None

    async def ask(self, task: KeptTask, method: str, params: bytes) -> bytes:
        """The server's answer to a request that changes a task. Raises its error, or OUTCOME_UNKNOWN for one it lost.

        The task is looked at first: an answer, or a cancellation, must not reach another one under the same id.
        """

        async def once(line: UpstreamConnection) -> bytes:
            return await line.connection.request(method, params, timeout=LOOK_S)

        return await self.after_look(task, once)

    async def after_look(self, task: KeptTask, ask: Callable[[UpstreamConnection], Awaitable[R]]) -> R:
        """Ask on the very line on which the task was just seen; where that breaks, look and ask once more."""

        async def looked() -> R:
            await self.look(task)
            return await ask(await self.line(task))

        return await self._twice(task, looked)

    async def look(self, task: KeptTask, params: bytes | None = None) -> bytes:
        """Ask its server where it stands: the answer as it came. Raises OUTCOME_UNKNOWN for a task it does not know."""
        if task.lost:
            raise TaskLost(task)
        try:
            said = await self._state(task, params)
        except Fault as fault:
            if fault.foreign_code != NO_TASK:
                raise
            self._tracker.lost(task)
            raise TaskLost(task) from None
        state = read_state(said, task.modern)
        if state.id != task.theirs or state.created_at != task.created_at:
            # Begun at another time, it is another task: a server that lost what it had has used the id again.
            self._tracker.lost(task)
            raise TaskLost(task)
        self._tracker.observe(task, state, outcome_in(said) if task.modern else None)
        self._tracker.tell_if_new(task, said)
        return said

    async def _state(self, task: KeptTask, params: bytes | None) -> bytes:
        async def asked() -> bytes:
            line = await self.line(task)
            payload = self._params(task, line) if params is None else params
            return await line.connection.request("tasks/get", payload, timeout=LOOK_S)

        return one_line(await self._twice(task, asked))

    async def _twice(self, task: KeptTask, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask; where the task's line turns out to be gone, once more on another. Requests about a task change nothing
        when they are made twice."""
        for _ in range(2):
            try:
                return await ask()
            except Fault as fault:
                if fault.name not in GONE or isinstance(fault, TaskLost):
                    raise
            live = self._tracker.live(task)
            self._tracker.let_go(task, live)
            self.leave(task, live)
        raise Fault("SERVER_NOT_READY", f"{task.server} cannot be reached", retry_after_ms=2000)

    def _params(self, task: KeptTask, line: UpstreamConnection) -> bytes:
        params = msgspec.json.encode({"taskId": task.theirs})
        if not task.modern:
            return params
        return declaring(line.connection.identity, line.connection.revision, params)

    async def stop(self, task: KeptTask, line: UpstreamConnection) -> None:
        with contextlib.suppress(Fault):
            await line.connection.request("tasks/cancel", self._params(task, line), timeout=LOOK_S)

    def forget(self, id: str) -> None:
        """A task is not kept any more."""
        for place in [place for place, task in self._places.items() if task == id]:
            del self._places[place]
