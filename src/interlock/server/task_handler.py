"""Where a server's tasks meet its clients: which calls become tasks, and the methods by which they are looked after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.results import COMPLETE
from interlock.protocols.mcp.tasks import (
    EXTENSION,
    OLD_CAPABILITY,
    STATUS_CHANGED,
    Support,
    extension_needed,
    has_tasks,
    task_id_in,
    wanted_ttl,
)
from interlock.server.options import From
from interlock.server.tasks import PAGE, RunningTask, TaskLimits, Tasks
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault
from interlock.wire.seal import Seal

if TYPE_CHECKING:
    from interlock.server.listeners import Listeners
    from interlock.server.work import Work


class AsTask(msgspec.Struct, frozen=True):
    """A call that is to be a task."""

    ttl_ms: int | None
    at_once: bool


class TaskHandler:
    """Answers for the tasks of a server."""

    def __init__(
        self,
        limits: TaskLimits,
        listeners: Listeners,
        seal: Seal,
        signed: Mapping[str, object],
        *,
        lists: bool,
        offered: Callable[[], bool],
    ) -> None:
        self.tasks = Tasks(limits, self._told)
        self._listeners = listeners
        self._seal = seal
        self._signed = signed
        self._lists = lists
        self._offered = offered
        self.methods: dict[str, Callable[[Exchange], None]] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }

    def capability(self, dialect: Dialect) -> dict[str, object]:
        """What is declared of tasks, in the form of the client's revision."""
        if not self._offered():
            return {}
        if dialect.modern:
            return {"extensions": {EXTENSION: {}}}
        if not has_tasks(dialect.revision):
            return {}
        # A server that cannot tell its clients apart lists no tasks (2025-11-25, Tasks: Security Considerations).
        kept = {name: said for name, said in OLD_CAPABILITY.items() if name != "list" or self._lists}
        return {"tasks": kept}

    # Calls

    def wanted(self, dialect: Dialect, support: Support, when: From, asked: msgspec.Raw | None) -> AsTask | None:
        """Whether a call of a tool is to be a task. Raises where it must be one and cannot, or the reverse.

        `asked` is the request's `task`, if it has one.
        """
        if dialect.modern:
            if dialect.capabilities.tasks:
                return None if support == "forbidden" else AsTask(None, when == "start")
            if support == "required":
                raise extension_needed()
            return None
        augmented = asked is not None and has_tasks(dialect.revision) and self._offered()
        if augmented and support == "forbidden":
            raise Fault("METHOD_NOT_FOUND", "this tool cannot be called as a task", hint="call it without `task`")
        if not augmented and support == "required":
            raise Fault("METHOD_NOT_FOUND", "this tool is only called as a task", hint="call it with `task`")
        return AsTask(wanted_ttl(asked), True) if augmented and asked is not None else None

    def offer(self, work: Work, as_task: AsTask) -> None:
        """Make a task of a call: now, answering the call with it, or when its function says so."""

        def begin(work: Work) -> None:
            work.running = task = self.tasks.open(work, as_task.ttl_ms)
            work.done(task.created(self._signed))

        if as_task.at_once:
            begin(work)
        else:
            work.detach = begin

    # Methods

    def _find(self, exchange: Exchange) -> RunningTask:
        dialect = exchange.dialect
        if not dialect.modern and not has_tasks(dialect.revision):
            raise Fault("METHOD_NOT_FOUND", f"revision {dialect.revision.name} has no tasks")
        if dialect.modern and not dialect.capabilities.tasks:
            raise extension_needed()
        task = self.tasks.find(task_id_in(exchange.request.params), exchange.caller.owner, dialect.modern)
        if exchange.session is not None:
            task.session = exchange.session
        return task

    def _get(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        said = task.detailed()
        if task.modern:
            said = {"resultType": "complete", "_meta": self._signed, **said}
        exchange.result(msgspec.json.encode(said))

    def _result(self, exchange: Exchange) -> None:
        self._find(exchange).wait(exchange)

    def _cancel(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        if not task.modern and task.state.over:
            raise Fault("INVALID_PARAMS", f"the task is {task.state.status} already, and cannot be cancelled")
        task.cancel()
        # In the stateless era a cancellation is only acknowledged, whatever it finds (SEP-2663, Task Cancellation).
        exchange.result(COMPLETE if task.modern else msgspec.json.encode(task.state.to_wire(False)))

    def _update(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        try:
            responses = msgspec.json.decode(exchange.request.params, type=_Update).inputResponses
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"inputResponses: {cause}") from None
        task.answered(bytes(responses))
        exchange.result(COMPLETE)

    def _list(self, exchange: Exchange) -> None:
        if not self._lists or not has_tasks(exchange.dialect.revision):
            raise Fault("METHOD_NOT_FOUND", "tasks are not listed here: callers cannot be told apart")
        try:
            cursor = msgspec.json.decode(exchange.request.params, type=_Page).cursor
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"cursor: {cause}") from None
        owner = exchange.caller.owner
        mine = list(self.tasks.of(owner))
        start = 0
        if cursor is not None:
            last = self._seal.open(cursor)
            places = {task.id.encode(): place for place, task in enumerate(mine)}
            if last is None or last not in places:
                raise Fault("INVALID_PARAMS", "this cursor leads nowhere", hint="begin again without one")
            start = places[last] + 1
        page = mine[start : start + PAGE]
        result: dict[str, object] = {"tasks": [task.state.to_wire(False) for task in page]}
        if start + PAGE < len(mine):
            result["nextCursor"] = self._seal.close(page[-1].id.encode())
        exchange.result(msgspec.json.encode(result))

    # Telling

    def heard_of(self, exchange: Exchange, ids: list[str]) -> list[str]:
        """Those of the ids that a stream can be about: this caller's own (SEP-2663, Task Status Notifications)."""
        if ids and not exchange.dialect.capabilities.tasks:
            raise extension_needed()
        owner = exchange.caller.owner
        return [id_ for id_ in dict.fromkeys(ids) if self._is_of(id_, owner)]

    def _is_of(self, id: str, owner: str) -> bool:
        try:
            return self.tasks.find(id, owner, True) is not None
        except Fault:
            return False

    def _told(self, task: RunningTask) -> None:
        method, said = STATUS_CHANGED[task.modern], task.detailed()
        if task.modern:
            self._listeners.task_changed(task.id, method, said)
        elif task.session is not None:
            task.session.notify(method, msgspec.json.encode(said))

    def close(self) -> None:
        """Stop every task."""
        self.tasks.close()


class _Update(msgspec.Struct):
    inputResponses: msgspec.Raw


class _Page(msgspec.Struct):
    cursor: str | None = None
