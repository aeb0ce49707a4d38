"""Notifies principals of their tasks: in the session that they use, and on the streams that follow a task.

A notification is queued with its task, and a `TaskChanged` event wakes the sender. So a report of a server costs no
client any time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from interlock.events import Bus, EventFilter, Gap, SubscriberTask
from interlock.events.types import Delivery, TaskChanged, now_us
from interlock.hub.tasks.ledger import StoredTask, TaskLedger
from interlock.hub.tasks.running_task import Notify, RunningTask, RunningTasks, renamed
from interlock.hub.tasks.status_texts import StatusTexts
from interlock.hub.tasks.task_access import TaskAccess
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import STATUS_CHANGED


class TaskNotifications:
    """The notifications and the followers of all running tasks."""

    def __init__(
        self,
        running: RunningTasks,
        ledger: TaskLedger,
        upstreams: Upstreams,
        reach: TaskAccess,
        bus: Bus,
        texts: StatusTexts,
    ) -> None:
        self._running = running
        self._ledger = ledger
        self._upstreams = upstreams
        self._reach = reach
        self._bus = bus
        self._texts = texts
        self._sending = SubscriberTask(bus.subscribe(EventFilter.of(TaskChanged)), self._send)

    async def close(self) -> None:
        """Send nothing more."""
        await self._sending.close()

    def notify(self, task: StoredTask, method: str, params: bytes) -> None:
        """Notify the principal of a task: its session and its streams."""
        running = self._running.of(task)
        running.notify(method, params)
        self._bus.publish(TaskChanged(task.server, self._bus.next(), now_us(), task.id, running.state.status))

    def notify_if_new(self, task: StoredTask, answer: bytes) -> None:
        """Notify followers of a status that a query found and the server did not report."""
        running = self._running.of(task)
        if running.followers and running.notified != running.state.status:
            fields = members(renamed(answer, task))
            fields.pop("resultType", None)
            self.notify(task, STATUS_CHANGED[task.modern], msgspec.json.encode(fields))

    def follow(self, task: StoredTask, follower: object, notify: Notify) -> None:
        """Notify a follower of every change (stateless era)."""
        self._running.of(task).followers[follower] = notify

    def unfollow(self, task: StoredTask, follower: object) -> None:
        """Stop notifying a follower."""
        running = self._running.get(task.id)
        if running is not None:
            running.followers.pop(follower, None)

    async def watch(self, servers: set[str]) -> None:
        """Subscribe to followed tasks at their servers."""
        for server in servers:
            upstream = self._upstreams.get(server)
            if upstream is not None:
                await upstream.watch_again()

    def followed(self, server: str) -> list[str]:
        """The server's ids of its tasks that clients follow."""
        ids = [id_ for id_, running in self._running.items() if running.followers and not running.state.over]
        tasks = (self._ledger.get(id_) for id_ in ids)
        return [task.upstream_id for task in tasks if task is not None and task.server == server and task.modern]

    async def _send(self, batch: Sequence[Delivery]) -> None:
        """Send notifications to the principals of changed tasks; after a gap, of all."""
        ids = [event.task for event in batch if isinstance(event, TaskChanged)]
        if any(isinstance(event, Gap) for event in batch):
            ids = [id_ for id_, running in self._running.items() if running.unsent]
        for id_ in dict.fromkeys(ids):
            task, running = self._ledger.at_id(id_), self._running.get(id_)
            if task is not None and running is not None:
                self._send_unsent(task, running)

    def _send_unsent(self, task: StoredTask, running: RunningTask) -> None:
        while running.unsent:
            method, params = running.unsent.popleft()
            if running.session is not None and self._reach(running.session.caller, task) is not None:
                running.session.notify(
                    method, self._texts.checked(running.session.caller, task.server, task.tool, params)
                )
            for follower in list(running.followers.values()):
                follower(method, params)
