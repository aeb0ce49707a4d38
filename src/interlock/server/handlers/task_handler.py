"""Handlers of the task methods, and the rule for which calls become tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.results import COMPLETE
from interlock.protocols.mcp.tasks import (
    EXTENSION,
    OLD_CAPABILITY,
    Support,
    extension_needed,
    has_tasks,
    task_id_in,
    unknown_task,
    wanted_ttl,
)
from interlock.server.definitions.offers import Offers
from interlock.server.definitions.options import From
from interlock.server.handlers.function_task import FunctionTask
from interlock.server.handlers.tasks import PAGE, TaskLimits, Tasks
from interlock.server.requests import params
from interlock.server.requests.content import Members
from interlock.server.requests.session import Exchange
from interlock.server.requests.work import Work
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker
from interlock.wire.seal import Seal


class AsTask(msgspec.Struct, frozen=True):
    """How a call becomes a task."""

    ttl_ms: int | None
    at_once: bool


class ServerTaskHandler:
    """Answers for the tasks of a server. `lists` says whether callers are told apart, so that tasks can be listed."""

    def __init__(
        self,
        limits: TaskLimits,
        offers: Offers,
        worker: Worker,
        seal: Seal,
        signed: Mapping[str, object],
        *,
        lists: bool,
    ) -> None:
        self.tasks = Tasks(limits, offers.listeners, worker)
        self._offers = offers
        self._seal = seal
        self._signed = signed
        self._lists = lists

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }

    def capability(self, dialect: Dialect) -> Members:
        """The capability that is declared for tasks, in the form of the client's revision."""
        if not self._offers.has("tasks"):
            return {}
        if dialect.modern:
            return {"extensions": {EXTENSION: {}}}
        if not has_tasks(dialect.revision):
            return {}
        # A server that cannot tell its clients apart lists no tasks (2025-11-25, Tasks: Security Considerations).
        return {"tasks": {name: value for name, value in OLD_CAPABILITY.items() if name != "list" or self._lists}}

    def wanted(self, dialect: Dialect, support: Support, when: From, wish: msgspec.Raw | None) -> AsTask | None:
        """How a call becomes a task; None if it does not. Raises METHOD_NOT_FOUND if the tool and the wish disagree.

        `wish` is the request's `task`, if it has one.
        """
        if dialect.modern:
            if dialect.capabilities.tasks:
                return None if support == "forbidden" else AsTask(None, when == "start")
            if support == "required":
                raise extension_needed()
            return None
        augmented = wish is not None and has_tasks(dialect.revision) and self._offers.has("tasks")
        if augmented and support == "forbidden":
            raise Fault("METHOD_NOT_FOUND", "this tool cannot be called as a task", hint="call it without `task`")
        if not augmented and support == "required":
            raise Fault("METHOD_NOT_FOUND", "this tool is only called as a task", hint="call it with `task`")
        return AsTask(wanted_ttl(wish), True) if augmented and wish is not None else None

    def offer(self, work: Work, as_task: AsTask) -> None:
        """Make a task of a call and answer the call with it: now, or when its function decides."""

        def detach(work: Work) -> None:
            work.running = task = self.tasks.open(work, as_task.ttl_ms)
            work.done(task.created(self._signed))

        if as_task.at_once:
            detach(work)
        else:
            work.detach = detach

    def _find(self, exchange: Exchange) -> FunctionTask:
        dialect = exchange.dialect
        if not dialect.modern and not has_tasks(dialect.revision):
            raise Fault("METHOD_NOT_FOUND", f"revision {dialect.revision.name} has no tasks")
        if dialect.modern and not dialect.capabilities.tasks:
            raise extension_needed()
        task = self.tasks.get(task_id_in(exchange.request.params), exchange.caller.principal_name, dialect.modern)
        if task is None:
            raise unknown_task()
        if exchange.session is not None:
            task.session = exchange.session
        return task

    def _get(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        head = {"resultType": "complete", "_meta": self._signed} if task.modern else {}
        exchange.result(msgspec.json.encode({**head, **task.detailed()}))

    def _result(self, exchange: Exchange) -> None:
        self._find(exchange).wait(exchange)

    def _cancel(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        if not task.modern and task.state.over:
            raise Fault("INVALID_PARAMS", f"the task is {task.state.status} already, and cannot be cancelled")
        task.cancel()
        # In the stateless era every cancellation is only acknowledged (SEP-2663, Task Cancellation).
        exchange.result(COMPLETE if task.modern else msgspec.json.encode(task.state.to_wire(False)))

    def _update(self, exchange: Exchange) -> None:
        task = self._find(exchange)
        task.answered(bytes(params.read(exchange, params.UpdateTask).inputResponses))
        exchange.result(COMPLETE)

    def _list(self, exchange: Exchange) -> None:
        if not self._lists or not has_tasks(exchange.dialect.revision):
            raise Fault("METHOD_NOT_FOUND", "this server does not list tasks: it cannot tell callers apart")
        cursor = params.read(exchange, params.ListParams).cursor
        tasks = list(self.tasks.of(exchange.caller.principal_name))
        start = 0
        if cursor is not None:
            last = self._seal.open(cursor)
            places = {task.id.encode(): place for place, task in enumerate(tasks)}
            if last is None or last not in places:
                raise Fault("INVALID_PARAMS", "the cursor is not one of this list", hint="list again from the start")
            start = places[last] + 1
        page = tasks[start : start + PAGE]
        result: Members = {"tasks": [task.state.to_wire(False) for task in page]}
        if start + PAGE < len(tasks):
            result["nextCursor"] = self._seal.close(page[-1].id.encode())
        exchange.result(msgspec.json.encode(result))

    def owned_ids(self, exchange: Exchange, ids: list[str]) -> list[str]:
        """The ids of this caller's own tasks, each once (SEP-2663, Task Status Notifications)."""
        if ids and not exchange.dialect.capabilities.tasks:
            raise extension_needed()
        principal_name = exchange.caller.principal_name
        return [task_id for task_id in dict.fromkeys(ids) if self.tasks.get(task_id, principal_name, True)]
