"""Serves the `tasks/*` methods to the principals of tasks, and notifies streams that follow one.

A request for another principal's task gets exactly the answer for a task that does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import msgspec

from interlock.client.peer import remote_fault
from interlock.hub.audit.record import outcome_of
from interlock.hub.calls.background_tasks import BackgroundTasks, while_wanted
from interlock.hub.calls.bridges.retries import ANSWERS
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.dispatch.server_errors import answer_fault
from interlock.hub.calls.plan import CallPolicy
from interlock.hub.catalog.links import restored_answers
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import Exchange
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.tasks.questions import TaskQuestions
from interlock.hub.tasks.result_wait import ResultWait
from interlock.hub.tasks.running_task import Notify
from interlock.hub.tasks.task_results import TaskResults
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.open_counts import OpenCounts
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcp.reserved_names import error_of_server
from interlock.protocols.mcp.results import COMPLETE
from interlock.protocols.mcp.tasks import (
    extension_needed,
    has_tasks,
    read_state,
    task_id_in,
    unknown_task,
    with_related,
)
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Result, one_line

PAGE: Final = 100
MAX_OPEN_REQUESTS: Final = 512
"""Upper bound for open requests of one principal about tasks, including those that wait for a result."""
_AnswerTask = Callable[[Exchange, Caller, StoredTask, Target], Coroutine[None, None, None]]


class TaskHandler:
    """Serves the tasks of one hub."""

    def __init__(self, tracker: Tracker, upstreams: Upstreams, policy: CallPolicy, background: BackgroundTasks) -> None:
        self._tracker = tracker
        self._ledger = tracker.ledger
        self._background = background
        self._policy = policy
        self._reach = tracker.reach
        self._questions = TaskQuestions(upstreams)
        self._results = TaskResults(policy, tracker)
        self._open_requests: OpenCounts[str] = OpenCounts()
        self.methods: dict[str, Callable[[Exchange, Caller], None]] = {
            "tasks/get": partial(self._serve_task, self._get),
            "tasks/result": partial(self._serve_task, self._result),
            "tasks/list": self._list,
            "tasks/cancel": partial(self._serve_task, self._cancel),
            "tasks/update": partial(self._serve_task, self._update),
        }

    @property
    def open_requests(self) -> int:
        """How many requests about tasks are being served."""
        return self._open_requests.total()

    # Methods

    def _find(self, exchange: Exchange, caller: Caller) -> tuple[StoredTask, Target]:
        """The task of a request. Unknown, expired, foreign and unreachable tasks get the same error."""
        self._check_form(exchange)
        task = self._ledger.get(task_id_in(exchange.request.params))
        if task is None or task.principal_name != caller.principal_name or task.modern != exchange.dialect.modern:
            raise unknown_task()
        target = self._check_reach(caller, task)
        self._tracker.seen(task, exchange.session)
        return task, target

    def _check_reach(self, caller: Caller, task: StoredTask) -> Target:
        """The tool of a task. Raises the error of an unknown task where the caller may not reach it, or no more."""
        target = self._reach(caller, task)
        if target is None:
            raise unknown_task()
        return target

    def _check_form(self, exchange: Exchange) -> None:
        dialect = exchange.dialect
        if dialect.modern and not dialect.capabilities.tasks:
            raise extension_needed()
        if not dialect.modern and not has_tasks(dialect.revision):
            raise Fault("METHOD_NOT_FOUND", f"revision {dialect.revision.name} has no tasks")

    def _serve_task(self, answer: _AnswerTask, exchange: Exchange, caller: Caller) -> None:
        """Serve a method about one task."""
        task, target = self._find(exchange, caller)
        self._serve(Call.of(exchange, caller, target, {}), answer(exchange, caller, task, target))

    async def _get(self, exchange: Exchange, caller: Caller, task: StoredTask, target: Target) -> None:
        answer = await self._tracker.queries.check(task, self._forwarded_params(exchange, task))
        state = self._tracker.running.of(task).state
        if state.over and (task.modern or state.status == "cancelled"):
            self._tracker.delivered(task)
        await self._questions.judge(caller, task, answer)
        self._results.deliver(exchange, caller, task, target, answer, exchange.result)

    async def _result(self, exchange: Exchange, caller: Caller, task: StoredTask, target: Target) -> None:
        exchange.release_params()  # The wait may take hours, and needs none of them.
        # An error may be the outcome of the task, so a separate query checks whether the task exists.
        answer = await self._tracker.queries.after_check(task, partial(self._wait, exchange, caller, task))
        if isinstance(answer, Failure):
            await self._tracker.queries.check(task)
            self._check_reach(caller, task)
            self._tracker.delivered(task)
            raise remote_fault(error_of_server(answer.error))
        self._check_reach(caller, task)
        result = one_line(answer.result)
        self._tracker.ended_with(task, outcome_of(result))
        self._tracker.delivered(task)
        related = partial(with_related, task_id=task.id)
        self._results.finish(exchange, caller, target, result, lambda done: exchange.result(related(done)))

    async def _wait(
        self, exchange: Exchange, caller: Caller, task: StoredTask, route: UpstreamConnection
    ) -> Result | Failure:
        wait = ResultWait(exchange, caller, task, route, self._tracker.on_notification)
        left = max(1.0, (task.expires - self._ledger.clock()) / 1000)
        try:
            wait.start(asyncio.get_running_loop().time() + left)
            return await wait.answer
        finally:
            wait.stop("the caller stopped waiting")

    async def _cancel(self, exchange: Exchange, caller: Caller, task: StoredTask, target: Target) -> None:
        answer = await self._tracker.queries.ask(task, "tasks/cancel", self._forwarded_params(exchange, task))
        if task.modern:
            exchange.result(COMPLETE)
            return
        state = self._tracker.observe(task, read_state(answer, False))
        shown = msgspec.json.encode(state.to_wire(False))
        exchange.result(self._tracker.texts.checked(caller, task.server, task.tool, shown))

    async def _update(self, exchange: Exchange, caller: Caller, task: StoredTask, target: Target) -> None:
        fields = members(self._forwarded_params(exchange, task))
        if not caller.view.bare and ANSWERS in fields:
            fields[ANSWERS] = msgspec.Raw(restored_answers(task.server, bytes(fields[ANSWERS])))
        await self._tracker.queries.ask(task, "tasks/update", msgspec.json.encode(fields))
        exchange.result(COMPLETE)

    def _list(self, exchange: Exchange, caller: Caller) -> None:
        """List the caller's tasks, each in its last known state."""
        self._check_form(exchange)
        cursor = members(exchange.request.params).get("cursor")
        tasks = [
            task for task in self._ledger.of(caller.principal_name) if not task.modern and self._reach(caller, task)
        ]
        start = 0
        if cursor is not None:
            places = {task.id: place for place, task in enumerate(tasks)}
            last = msgspec.json.decode(cursor)
            if not isinstance(last, str) or last not in places:
                raise Fault("INVALID_PARAMS", "unknown cursor", hint="list again without `cursor`")
            start = places[last] + 1
        page = tasks[start : start + PAGE]
        shown = [(task, msgspec.json.encode(self._tracker.running.of(task).state.to_wire(False))) for task in page]
        checked = self._tracker.texts.checked
        states = [msgspec.Raw(checked(caller, task.server, task.tool, state)) for task, state in shown]
        listed: dict[str, object] = {"tasks": states}
        if start + PAGE < len(tasks):
            listed["nextCursor"] = page[-1].id
        exchange.result(msgspec.json.encode(listed))

    # Notifications

    def follow(
        self, exchange: Exchange, caller: Caller, ids: list[str], follower: object, notify: Notify
    ) -> list[StoredTask]:
        """Notify a listen stream of the caller's own tasks among the ids (SEP-2663, Task Status Notifications)."""
        followed: list[StoredTask] = []
        for id_ in dict.fromkeys(ids):
            task = self._ledger.get(id_)
            if task is None or task.principal_name != caller.principal_name or not task.modern or task.lost:
                continue
            target = self._reach(caller, task)
            if target is not None:
                self._tracker.notifications.follow(
                    task, follower, partial(self._notify, exchange, caller, task, target, notify)
                )
                followed.append(task)
        return followed

    async def watch(self, tasks: list[StoredTask]) -> None:
        """Subscribe to tasks at their servers."""
        await self._tracker.notifications.watch({task.server for task in tasks})

    def unfollow(self, task: StoredTask, follower: object) -> None:
        """Stop notifying a follower of a task."""
        self._tracker.notifications.unfollow(task, follower)

    def _notify(
        self,
        exchange: Exchange,
        caller: Caller,
        task: StoredTask,
        target: Target,
        notify: Notify,
        method: str,
        params: bytes,
    ) -> None:
        if self._reach(caller, task) is None:
            return
        deliver = partial(self._results.deliver, exchange, caller, task, target, params, partial(notify, method))
        try:
            if self._questions.known(task, params):
                deliver()
                return
        except Fault:
            return  # The client learns the reason when it asks for the task.
        self._background.begin(self._judge_then(caller, task, params, deliver), None)

    async def _judge_then(self, caller: Caller, task: StoredTask, params: bytes, deliver: Callable[[], None]) -> None:
        with contextlib.suppress(Fault):
            await self._questions.judge(caller, task, params)
            deliver()

    # Serving

    def _forwarded_params(self, exchange: Exchange, task: StoredTask) -> bytes:
        """A request's params with the server's id of the task, in the stateless era with the client's `_meta`."""
        request = exchange.request
        known = METHODS[request.method].params
        fields: dict[str, object] = {name: raw for name, raw in members(request.params).items() if name in known}
        fields["taskId"] = task.upstream_id
        if not task.modern:
            fields.pop("_meta", None)
        return msgspec.json.encode(fields)

    def _serve(self, call: Call, work: Coroutine[None, None, None]) -> None:
        principal_name = call.caller.principal_name
        if self._open_requests[principal_name] >= MAX_OPEN_REQUESTS:
            work.close()
            message = f"{MAX_OPEN_REQUESTS} requests of this caller about tasks are open"
            raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=500)
        self._open_requests.add(principal_name)
        self._background.begin(self._answer(call, work), call.exchange)

    async def _answer(self, call: Call, work: Coroutine[None, None, None]) -> None:
        """Answer a request about a task. A fault may quote the server of the task: it is processed as an error is."""
        exchange, processor = call.exchange, self._policy.processor_of(call.caller, call.target)
        try:
            await while_wanted(exchange, work)
        except Fault as fault:
            answer_fault(call, processor, fault)
        except TimeoutError:
            exchange.fail(Fault("SERVER_NOT_READY", "the task's server was not ready in time", retry_after_ms=2000))
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            unread = Fault("UPSTREAM_ERROR", f"the server's answer about a task cannot be read: {cause}")
            answer_fault(call, processor, unread)
        finally:
            principal_name = call.caller.principal_name
            self._open_requests.add(principal_name, -1)
