"""Where tasks meet clients: which calls may become tasks, and the methods by which their owners look after them.

Another principal's task is answered exactly like one that never was.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final, cast

import msgspec

from interlock.client.peer import remote_fault
from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome, outcome_of
from interlock.hub.calls.background_tasks import Later
from interlock.hub.calls.bridges.retries import ANSWERS, QUESTIONS
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.dispatch.result_postprocessing import ResultPostprocessor
from interlock.hub.catalog.links import exposed_questions, has_addresses, restored_answers, with_exposed_uris
from interlock.hub.catalog.target import Target
from interlock.hub.tasks.ledger import KeptTask, full
from interlock.hub.tasks.live import Expected, renamed
from interlock.hub.tasks.result_wait import ResultWait
from interlock.hub.tasks.task_exchange import TaskExchange
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN, members
from interlock.protocols.mcp.results import COMPLETE
from interlock.protocols.mcp.tasks import (
    AUGMENTED,
    EXTENSION,
    extension_needed,
    has_tasks,
    read_state,
    task_id_in,
    unknown_task,
    with_related,
)
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Result, one_line

PAGE: Final = 100
MOST_ASKING: Final = 512
"""Requests about tasks of one principal that are under way, with those that wait for a result."""
Offered = Callable[[Exchange, Caller], bool]


class TaskHandler:
    """Answers for the hub's tasks."""

    def __init__(
        self,
        tracker: Tracker,
        later: Later,
        record: Callable[[Ticket, Outcome | None], None],
        *,
        offered: Offered,
        reaches: Callable[[Caller, KeptTask], Target | None],
        finish_of: Callable[[Target], ResultPostprocessor | None],
        clock: Callable[[], float],
    ) -> None:
        self._tracker = tracker
        self._ledger = tracker.ledger
        self._later = later
        self._record = record
        self._offered = offered
        self._reaches = tracker.reaches = reaches
        self._finish_of = finish_of
        self._clock = clock
        self._asking: Counter[str] = Counter()
        self.methods: dict[str, Callable[[Exchange, Caller], None]] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }

    # Calls that may become tasks

    def prepare(self, call: Call, line: UpstreamConnection, done: Callable[[Call], None]) -> Callable[[Call], None]:
        """Make a call ready to become a task, where it may. Gives what to do when it is done. Raises where it may not.

        Tasks do not cross between the eras: a client's wish for one ends here, unless its server has the same form.
        """
        if isinstance(call.exchange, TaskExchange):
            # It was sent before, came back with an error, and is tried again.
            call.exchange = call.exchange.real
        exchange, connection = call.exchange, line.connection
        dialect = exchange.dialect
        if call.target.kind != "tool":
            # Only calls of tools become tasks, in either form.
            call.members.pop(AUGMENTED, None)
            return done
        if dialect.modern:
            # The member of 2025-11-25 means nothing in the stateless era (SEP-2663, Backward Compatibility).
            call.members.pop(AUGMENTED, None)
            wants = dialect.capabilities.tasks and connection.modern
        else:
            wants = self._wants(call, connection.modern)
        if not wants:
            return done
        owner = call.caller.owner
        if not self._ledger.reserve(owner):
            if not dialect.modern:
                raise full()
            # The server decides in the stateless era; told that tasks are not taken, it answers the call itself.
            call.members["_meta"] = msgspec.Raw(_without_extension(bytes(call.members["_meta"])))
            call.plain = False
            return done
        id_ = secrets.token_urlsafe(24)
        token = None
        meta = exchange.preview.meta
        if not dialect.modern and meta is not None and meta.progress_token is not None:
            token = self._tracker.expect(Expected(id_, call.target.server, meta.progress_token, exchange.session))
            given = bytes(call.members["_meta"])
            call.members["_meta"] = msgspec.Raw(msgspec.json.encode({**members(given), PROGRESS_TOKEN: token}))
        beginning = TaskExchange(
            call,
            line,
            self._tracker,
            self._later,
            release=partial(self._ledger.release, owner),
            record=self._record,
            id=id_,
            token=token,
        )
        call.exchange = beginning

        def over(call: Call) -> None:
            beginning.hold_ticket()
            done(call)

        return over

    def _wants(self, call: Call, modern: bool) -> bool:
        """Whether a call of 2025-11-25 is to be a task. Raises where it must not be one."""
        if AUGMENTED not in call.members:
            return False
        if not self._offered(call.exchange, call.caller):
            del call.members[AUGMENTED]
            return False
        tool = call.target.tool
        if modern or tool is None or tool.tasks == "forbidden":
            raise Fault("METHOD_NOT_FOUND", "this tool cannot be called as a task", hint="call it without `task`")
        return True

    # Methods

    def _find(self, exchange: Exchange, caller: Caller) -> tuple[KeptTask, Target]:
        """The task that a request means. Unknown, expired, another's, and out of reach are all the same."""
        self._check_form(exchange)
        task = self._ledger.get(task_id_in(exchange.request.params))
        if task is None or task.owner != caller.owner or task.modern != exchange.dialect.modern:
            raise unknown_task()
        target = self._reaches(caller, task)
        if target is None:
            raise unknown_task()
        self._tracker.seen(task, exchange.session)
        return task, target

    def _check_form(self, exchange: Exchange) -> None:
        dialect = exchange.dialect
        if dialect.modern and not dialect.capabilities.tasks:
            raise extension_needed()
        if not dialect.modern and not has_tasks(dialect.revision):
            raise Fault("METHOD_NOT_FOUND", f"revision {dialect.revision.name} has no tasks")

    def _get(self, exchange: Exchange, caller: Caller) -> None:
        task, target = self._find(exchange, caller)
        self._serve(exchange, self._got(exchange, caller, task, target))

    async def _got(self, exchange: Exchange, caller: Caller, task: KeptTask, target: Target) -> None:
        said = await self._tracker.asking.look(task, self._passed_on(exchange, task))
        state = self._tracker.live(task).state
        if state.over and (task.modern or state.status == "cancelled"):
            self._tracker.delivered(task)
        self.finished(exchange, caller, task, target, said, exchange.result)

    def _result(self, exchange: Exchange, caller: Caller) -> None:
        task, target = self._find(exchange, caller)
        self._serve(exchange, self._waited(exchange, caller, task, target))

    async def _waited(self, exchange: Exchange, caller: Caller, task: KeptTask, target: Target) -> None:
        # An error may be the outcome itself, so that whether there is such a task is asked apart.
        answer = await self._tracker.asking.after_look(task, partial(self._wait, exchange, task))
        if isinstance(answer, Failure):
            await self._tracker.asking.look(task)
            self._tracker.delivered(task)
            raise remote_fault(answer.error)
        result = one_line(answer.result)
        self._tracker.ended_with(task, outcome_of(result))
        self._tracker.delivered(task)
        self._finish(exchange, caller, target, result, lambda done: exchange.result(with_related(done, task.id)))

    async def _wait(self, exchange: Exchange, task: KeptTask, line: UpstreamConnection) -> Result | Failure:
        wait = ResultWait(exchange, task, line, self._tracker.on_notification)
        left = max(1.0, (task.expires - self._ledger.clock()) / 1000)
        try:
            wait.start(self._clock() + left)
            return await wait.answer
        finally:
            wait.stop("the caller no longer waits")

    def _cancel(self, exchange: Exchange, caller: Caller) -> None:
        task, _ = self._find(exchange, caller)
        self._serve(exchange, self._cancelled(exchange, task))

    async def _cancelled(self, exchange: Exchange, task: KeptTask) -> None:
        said = await self._tracker.asking.ask(task, "tasks/cancel", self._passed_on(exchange, task))
        if task.modern:
            exchange.result(COMPLETE)
            return
        state = self._tracker.observe(task, read_state(said, False))
        exchange.result(msgspec.json.encode(state.to_wire(False)))

    def _update(self, exchange: Exchange, caller: Caller) -> None:
        task, _ = self._find(exchange, caller)
        self._serve(exchange, self._updated(exchange, caller, task))

    async def _updated(self, exchange: Exchange, caller: Caller, task: KeptTask) -> None:
        fields = members(self._passed_on(exchange, task))
        if not caller.view.bare and ANSWERS in fields:
            fields[ANSWERS] = msgspec.Raw(restored_answers(task.server, bytes(fields[ANSWERS])))
        await self._tracker.asking.ask(task, "tasks/update", msgspec.json.encode(fields))
        exchange.result(COMPLETE)

    def _list(self, exchange: Exchange, caller: Caller) -> None:
        """From what is known here: each state as it was last seen."""
        self._check_form(exchange)
        cursor = members(exchange.request.params).get("cursor")
        mine = [task for task in self._ledger.of(caller.owner) if not task.modern and self._reaches(caller, task)]
        start = 0
        if cursor is not None:
            places = {task.id: place for place, task in enumerate(mine)}
            last = msgspec.json.decode(cursor)
            if not isinstance(last, str) or last not in places:
                raise Fault("INVALID_PARAMS", "this cursor leads nowhere", hint="begin again without one")
            start = places[last] + 1
        page = mine[start : start + PAGE]
        listed: dict[str, object] = {"tasks": [self._tracker.live(task).state.to_wire(False) for task in page]}
        if start + PAGE < len(mine):
            listed["nextCursor"] = page[-1].id
        exchange.result(msgspec.json.encode(listed))

    # Hearing of them

    def follow(self, exchange: Exchange, ids: list[str], who: object, tell: _Notify) -> list[KeptTask]:
        """Those of the ids that a listen stream is told of: the caller's own (SEP-2663, Task Status Notifications)."""
        followed: list[KeptTask] = []
        caller = cast(Caller, exchange.caller)
        for id_ in dict.fromkeys(ids):
            task = self._ledger.get(id_)
            if task is None or task.owner != caller.owner or not task.modern or task.lost:
                continue
            target = self._reaches(caller, task)
            if target is not None:
                self._tracker.follow(task, who, partial(self._tell, exchange, caller, task, target, tell))
                followed.append(task)
        return followed

    async def watch(self, tasks: list[KeptTask]) -> None:
        """See to it that their servers tell of them, where they do."""
        await self._tracker.watch({task.server for task in tasks})

    def unfollow(self, task: KeptTask, who: object) -> None:
        """Tell it no more."""
        self._tracker.unfollow(task, who)

    def _tell(
        self,
        exchange: Exchange,
        caller: Caller,
        task: KeptTask,
        target: Target,
        tell: _Notify,
        method: str,
        params: bytes,
    ) -> None:
        if self._reaches(caller, task) is not None:
            self.finished(exchange, caller, task, target, params, lambda said: tell(method, said))

    # Results

    def finished(
        self,
        exchange: Exchange,
        caller: Caller,
        task: KeptTask,
        target: Target,
        said: bytes,
        deliver: Callable[[bytes], None],
    ) -> None:
        """A server's word on a task, as its owner gets it; a result inside is finished as any result of the tool is."""
        fields = members(renamed(said, task))
        if not caller.view.bare and QUESTIONS in fields:
            fields[QUESTIONS] = msgspec.Raw(exposed_questions(task.server, bytes(fields[QUESTIONS])))
        raw = fields.get("result")
        if raw is None or not task.modern:
            deliver(msgspec.json.encode(fields))
            return

        def put(result: bytes) -> None:
            deliver(msgspec.json.encode({**fields, "result": msgspec.Raw(result)}))

        self._finish(exchange, caller, target, bytes(raw), put)

    def _finish(
        self, exchange: Exchange, caller: Caller, target: Target, result: bytes, deliver: Callable[[bytes], None]
    ) -> None:
        if not caller.view.bare and has_addresses(read_members(result), result):
            result = with_exposed_uris(target.server, result)
        finish = self._finish_of(target)
        if finish is None:
            deliver(result)
        else:
            finish(Call(exchange, caller, target, {}), result, deliver)

    # Serving

    def _passed_on(self, exchange: Exchange, task: KeptTask) -> bytes:
        """A request's params under the server's own id; in the stateless era with what the client says of itself."""
        fields: dict[str, object] = dict(members(exchange.request.params))
        fields["taskId"] = task.theirs
        if not task.modern:
            fields.pop("_meta", None)
        return msgspec.json.encode(fields)

    def _serve(self, exchange: Exchange, work: Coroutine[None, None, None]) -> None:
        owner = exchange.caller.owner
        if self._asking[owner] >= MOST_ASKING:
            work.close()
            message = f"{MOST_ASKING} requests of this caller about tasks are under way"
            raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=500)
        self._asking[owner] += 1
        self._later(self._answer(exchange, work))

    async def _answer(self, exchange: Exchange, work: Coroutine[None, None, None]) -> None:
        serving = asyncio.current_task()

        def cancelled(reason: str) -> None:
            if serving is not None:
                serving.cancel(reason)

        exchange.on_cancel = cancelled
        try:
            await work
        except Fault as fault:
            exchange.fail(fault)
        except TimeoutError:
            exchange.fail(Fault("SERVER_NOT_READY", "the task's server was not ready in time", retry_after_ms=2000))
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            exchange.fail(Fault("UPSTREAM_ERROR", f"the server's word on a task cannot be read: {cause}"))
        finally:
            owner = exchange.caller.owner
            self._asking[owner] -= 1
            if not self._asking[owner]:
                del self._asking[owner]


_Notify = Callable[[str, bytes], None]


def _without_extension(meta: bytes) -> bytes:
    """A request's `_meta` that does not say that tasks are taken for answers."""
    said = msgspec.json.decode(members(meta).get(CLIENT_CAPABILITIES, b"{}"), type=dict[str, object])
    extensions = said.get("extensions")
    if isinstance(extensions, dict):
        said["extensions"] = {name: value for name, value in extensions.items() if name != EXTENSION}
    return msgspec.json.encode({**members(meta), CLIENT_CAPABILITIES: said})
