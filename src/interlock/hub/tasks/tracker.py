"""Tracks running tasks from their start to their outcome, which the audit log gets once.

The hub queries tasks that nobody else queries. It never repeats the call of a task: the outcome of a task that its
server lost is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.events import Bus
from interlock.hub.audit.entries import Ticket, event_record
from interlock.hub.audit.record import CANCELLED, SUCCEEDED, TASK_ENDED, TOOL_FAILED, UNKNOWN, Outcome
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call
from interlock.hub.calls.recording import Recording
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import Session
from interlock.hub.tasks.ledger import StoredTask, TaskLedger
from interlock.hub.tasks.running_task import RunningTask, RunningTasks, outcome_in, renamed
from interlock.hub.tasks.server_queries import ServerQueries
from interlock.hub.tasks.status_texts import StatusTexts
from interlock.hub.tasks.task_access import TaskAccess
from interlock.hub.tasks.task_notifications import TaskNotifications
from interlock.hub.tasks.task_progress import TaskProgress
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet
from interlock.protocols.mcp.tasks import STATUS_CHANGED, Status, TaskState, read_state
from interlock.store import StoreError
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import Fault

QUERY_EVERY_S: Final = 15.0
"""The hub queries a task that no client queries at most this often."""
MAX_QUERIES: Final = 8
"""How many such queries run at once."""


class Tracker:
    """All running tasks of one hub."""

    def __init__(
        self,
        ledger: TaskLedger,
        upstreams: Upstreams,
        recording: Recording,
        max_ttl_ms: Callable[[], int],
        reach: TaskAccess,
        bus: Bus,
        texts: StatusTexts,
    ) -> None:
        self.ledger = ledger
        self.reach = reach
        self.texts = texts
        self._upstreams = upstreams
        self._recording = recording
        self._max_ttl_ms = max_ttl_ms
        self._clock = asyncio.get_running_loop().time
        self.running = RunningTasks()
        self.progress = TaskProgress(self.running, texts)
        self.notifications = TaskNotifications(self.running, ledger, upstreams, reach, bus, texts)
        self.queries = ServerQueries(self, ledger, upstreams)
        self._work = TaskSet()

    # Starting

    async def begin(
        self,
        id: str,
        call: Call,
        route: UpstreamConnection,
        started: TaskState,
        ticket: Ticket | None,
        token: str | None,
    ) -> StoredTask:
        """Store a task that a server started for a call. When this fails with a `Fault`, the hub has cancelled it."""
        task = self._stored(id, call, route, started, ticket)
        running = self.running[task.id] = RunningTask(task.state, self._clock(), route, ticket, token)
        self.seen(task, call.exchange.session)
        try:
            await self.ledger.add(task)
        except StoreError as cause:
            self._end(task, running, UNKNOWN, "the task could not be stored")
            self._forget(task.id)
            await self.queries.stop(task, route)
            message = f"the task could not be stored: {cause.message}"
            raise Fault("INTERNAL_ERROR", message, hint=cause.hint, operator_text=cause.operator_text) from None
        self.queries.locate(task, running, route)
        self._count(task, running)
        if started.over:
            self.observe(task, started)
        return task

    def _stored(
        self, id: str, call: Call, route: UpstreamConnection, started: TaskState, ticket: Ticket | None
    ) -> StoredTask:
        limit = self._max_ttl_ms()
        ttl = limit if started.ttl_ms is None else min(limit, started.ttl_ms)
        return StoredTask(
            id,
            call.caller.principal_name,
            call.target.server,
            call.target.name,
            started.id,
            route.connection.modern,
            self.ledger.clock() + ttl,
            ttl,
            started.created_at,
            started.updated_at or started.created_at,
            "working" if started.over else started.status,
            started.poll_ms,
            started.message,
            call.trace,
            0 if ticket is None else ticket.seq,
        )

    async def abandon(self, task: StoredTask) -> None:
        """Cancel and forget a task whose id no client knows."""
        running = self.running.of(task)
        if running.route is not None:
            await self.queries.stop(task, running.route)
        self.let_go(task, running)
        self.queries.leave(task, running)
        self._end(task, running, CANCELLED, "the caller left before it got the task")
        self._forget(task.id)
        with contextlib.suppress(StoreError):
            await self.ledger.drop([task])

    def seen(self, task: StoredTask, session: Session | None) -> None:
        """Send notifications of a task to the session that its principal uses now (2025-11-25)."""
        if session is not None and not session.over:
            self.running.of(task).use_session(session)
            session.tasks.add(task.id)

    def leave(self, session: Session) -> None:
        """Detach a closed session from its tasks, which go on."""
        for id_ in session.tasks:
            running = self.running.get(id_)
            if running is not None and running.session is session:
                running.use_session(None)

    # Outcomes

    def observe(self, task: StoredTask, reported: TaskState, outcome: Outcome | None = None) -> TaskState:
        """Take a state that the server reported. Returns the state for its principal."""
        running = self.running.of(task)
        running.check(self._clock())
        before = running.state
        if before.over:
            return before
        state = msgspec.structs.replace(
            reported,
            id=task.id,
            created_at=task.created_at,
            ttl_ms=task.ttl_ms,
            updated_at=reported.updated_at or before.updated_at,
        )
        running.move(state)
        if state.over:
            self._end(task, running, outcome or _OUTCOMES[state.status], "as a task")
            self._work.begin(self._put(task.with_state(state)))
        return state

    def ended_with(self, task: StoredTask, outcome: Outcome) -> None:
        """Take the result of a task (2025-11-25), which is more exact than its state."""
        running = self.running.of(task)
        if not running.state.over:
            status: Status = "failed" if outcome.tool == "error" else "completed"
            running.move(msgspec.structs.replace(running.state, status=status))
            self._end(task, running, outcome, "as a task")
            self._work.begin(self._put(task.with_state(running.state)))

    def delivered(self, task: StoredTask) -> None:
        """Its principal has the outcome, so the task no longer counts for its server."""
        self.let_go(task, self.running.of(task))

    def lost(self, task: StoredTask) -> None:
        """The server lost the task, so its outcome stays unknown."""
        if not task.lost:
            running = self.running.of(task)
            self._end(task, running, UNKNOWN, "the server no longer knows the task")
            self.let_go(task, running)
            self.queries.leave(task, running)
            self._work.begin(self._put(msgspec.structs.replace(task, lost=True)))

    def _end(self, task: StoredTask, running: RunningTask, outcome: Outcome, reason: str) -> None:
        """Record the outcome: with the ticket of the call, or as an event if an earlier run recorded it as unknown."""
        if (ticket := running.take_ticket()) is not None:
            self._recording.recorder.outcome(ticket, outcome, reason, {"task": task.id})
        elif task.intent and not task.state.over and not task.lost and outcome.transport != "unknown":
            kind, _, name = task.principal_name.partition(":")
            principal = msgspec.convert({"id": name, "kind": kind}, Principal)
            details = {"task": task.id, "intent": task.intent, "result": outcome.result}
            target = Target("tool", task.server, task.tool)
            self._recording.recorder.add(event_record(TASK_ENDED, principal, target, task.trace, details=details))

    async def _put(self, task: StoredTask) -> None:
        with contextlib.suppress(StoreError):
            await self.ledger.put(task)

    def _count(self, task: StoredTask, running: RunningTask) -> None:
        """Keep the server and a private connection open until its principal has the outcome."""
        upstream = self._upstreams.get(task.server)
        if upstream is not None:
            running.count(on=True)
            upstream.add_task()
        if running.route is not None and running.route.owner is not None:
            running.route.owner.tasks[task.upstream_id] = task.id

    def let_go(self, task: StoredTask, running: RunningTask) -> None:
        """Stop counting the task for its server."""
        if running.counted:
            running.count(on=False)
            upstream = self._upstreams.get(task.server)
            if upstream is not None:
                upstream.remove_task()
        if running.route is not None and running.route.owner is not None:
            running.route.owner.tasks.pop(task.upstream_id, None)

    def _forget(self, id: str) -> None:
        running = self.running.pop(id, None)
        if running is None:
            return
        self.progress.drop(running.token)
        if running.session is not None:
            running.session.tasks.discard(id)

    # Notifications

    def on_notification(self, server: str, owner: ConnectionOwner | None, method: str, params: bytes) -> None:
        """Take a server's notification about a task; `owner` is None on the shared connection."""
        if method == PROGRESS:
            self.progress.on_progress(server, params)
            return
        modern = method == STATUS_CHANGED[True]
        try:
            reported = read_state(params, modern)
        except Fault:
            return
        task = self.queries.task_at(server, owner, reported.id)
        if task is None or task.modern != modern or task.created_at != reported.created_at:
            return
        self.observe(task, reported, outcome_in(params) if modern else None)
        self.notifications.notify(task, method, renamed(params, task))

    # Maintenance

    async def sweep(self) -> None:
        """Query tasks that no client queried lately, and forget expired ones."""
        expired = self.ledger.expired()
        await self._query_due(expired)
        for task in expired:
            running = self.running.of(task)
            self._end(task, running, UNKNOWN, "the task expired")
            self.let_go(task, running)
            self.queries.leave(task, running)
            self._forget(task.id)
        for id_ in [id_ for id_ in self.running if self.running[id_].ticket is None and self.ledger.at_id(id_) is None]:
            # Another node deleted the task.
            self.queries.forget(id_)
            self._forget(id_)
        if expired:
            with contextlib.suppress(StoreError):
                await self.ledger.drop(expired)

    async def _query_due(self, expired: list[StoredTask]) -> None:
        """Query open tasks that were not checked lately, and once more those that expired."""
        slots = asyncio.Semaphore(MAX_QUERIES)

        async def query(task: StoredTask) -> None:
            async with slots:
                with contextlib.suppress(Fault, TimeoutError):
                    await self.queries.check(task)

        before = self._clock() - QUERY_EVERY_S
        open_tasks = (
            (self.ledger.at_id(id_), running)
            for id_, running in list(self.running.items())
            if running.ticket is not None
        )
        due = [
            task for task, running in open_tasks if task is not None and (running.checked < before or task in expired)
        ]
        await asyncio.gather(*(query(task) for task in due))

    async def close(self) -> None:
        """Record running tasks as unknown. The store keeps them, so their principals can query them after a restart."""
        await self.notifications.close()
        for id_, running in list(self.running.items()):
            task = self.ledger.at_id(id_)
            if task is not None and running.ticket is not None:
                self._end(task, running, UNKNOWN, "the hub ended while the task ran")
        await self._work.settled()


_OUTCOMES: Final = {"completed": SUCCEEDED, "failed": TOOL_FAILED, "cancelled": CANCELLED}
