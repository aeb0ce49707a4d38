"""One task: a function that goes on after its request was answered, its state, its open questions, and its outcome.

`tasks.py` has all tasks of a server, by owner and time to live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members
from interlock.protocols.mcp.tasks import (
    STATUS_CHANGED,
    TERMINAL,
    TRANSITIONS,
    Status,
    TaskState,
    unknown_task,
    with_related,
)
from interlock.server.requests.content import Members, present
from interlock.server.requests.listeners import Listeners
from interlock.server.requests.session import Exchange, ServerSession
from interlock.server.requests.work import MAX_ATTEMPTS, Read, T, Work, malformed_answer, unfit_answer
from interlock.transports.requests.parked_request import UnfitAnswer
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker

MAX_MESSAGE_CHARS: Final = 2_000


class TaskTable(Protocol):
    """All tasks of a server, as one of them uses them."""

    worker: Worker
    listeners: Listeners

    def hold(self, size: int) -> bool:
        """Reserve space for an outcome. False when none is left."""

    def expire(self, task: FunctionTask) -> None:
        """Stop and forget a task."""


class _Question(msgspec.Struct, eq=False):
    method: str
    params: bytes
    read: Callable[[bytes], object]
    answer: asyncio.Future[object]
    attempts: int = 0
    open: bool = False
    """Whether the client was asked and has not answered yet (2025-11-25)."""


class FunctionTask:
    """One task: the function that runs, its state, its open questions, and its outcome."""

    def __init__(self, tasks: TaskTable, work: Work, ttl_ms: int, poll_ms: int) -> None:
        self.id = tasks.worker.new_id()
        self.principal_name = work.principal_name
        self.modern = work.dialect.modern
        self.session: ServerSession | None = work.session
        """The principal's last session (2025-11-25), which gets its notifications."""
        self.held_bytes = 0
        self.outcome: bytes | Fault | None = None
        self._tasks = tasks
        self._work = work
        now = _now()
        self.state = TaskState(self.id, "working", now, now, ttl_ms, poll_ms)
        self._timer = asyncio.get_running_loop().call_later(ttl_ms / 1000, tasks.expire, self)
        self._questions: dict[str, _Question] = {}
        self._keys: set[str] = set()
        self._waiting: list[Exchange] = []
        meta = work.exchange.preview.meta
        self._token = None if meta is None else meta.progress_token

    # Its state.

    def created(self, signed: object) -> bytes:
        """The answer to the call that became this task (CreateTaskResult)."""
        state = self.state.to_wire(self.modern)
        if not self.modern:
            return msgspec.json.encode({"task": state})
        return msgspec.json.encode({"resultType": "task", **state, "_meta": signed})

    def detailed(self) -> Members:
        """Its state, in the stateless era with its outcome or its open questions (SEP-2663, Task Status)."""
        state = self.state.to_wire(self.modern)
        status, outcome = self.state.status, self.outcome
        if not self.modern:
            return state
        if status == "input_required":
            state["inputRequests"] = {
                key: {"method": question.method, "params": msgspec.Raw(question.params)}
                for key, question in self._questions.items()
            }
        elif status == "completed" and isinstance(outcome, bytes):
            state["result"] = msgspec.Raw(outcome)
        elif status == "failed" and isinstance(outcome, Fault):
            state["error"] = outcome.render(self._work.dialect.error_dialect)
        return state

    def wait(self, exchange: Exchange) -> None:
        """Answer with the outcome, now or when there is one. Until then the request carries questions (2025-11-25)."""
        self.session = exchange.session
        if self.state.over:
            self._answer(exchange)
            return
        self._waiting.append(exchange)
        exchange.on_cancel = lambda _: self._stop_waiting(exchange)
        self._ask_waiting()

    def _answer(self, exchange: Exchange) -> None:
        outcome = self.outcome
        if isinstance(outcome, bytes):
            exchange.result(with_related(outcome, self.id))
        else:
            exchange.fail(outcome or Fault("CANCELLED", "the task was cancelled"))

    def _stop_waiting(self, exchange: Exchange) -> None:
        if exchange in self._waiting:
            self._waiting.remove(exchange)

    # Its progress.

    def on_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Take a progress report of the function. Its message becomes the task's status message."""
        if self.state.over:
            return
        if message is not None:
            self._set(self.state.status, message)
        # The stateless era has no progress of tasks (SEP-2663, Task Status Notifications).
        if self._token is not None:
            report = present(progress=done, total=total, message=message)
            self.notify(PROGRESS, {PROGRESS_TOKEN: self._token, **report})

    def notify(self, method: str, params: Members) -> None:
        """Send the principal's session a notification about this task (2025-11-25)."""
        if self.session is not None and not self.modern:
            self.session.notify(method, with_related(msgspec.json.encode(params), self.id))

    def done(self, outcome: bytes | Fault) -> None:
        """Take the outcome of the function. A task that was cancelled stays cancelled."""
        if self.state.over:
            return
        if isinstance(outcome, bytes):
            if self._tasks.hold(len(outcome)):
                self.held_bytes = len(outcome)
            else:
                outcome = Fault("RESOURCE_EXHAUSTED", "no space is left to keep the task's result")
        if isinstance(outcome, Fault):
            self._end("failed", outcome, outcome.message)
        elif not self.modern and _is_error(outcome):
            # Only the form of 2025-11-25 counts a tool's own error as a failure of the task.
            self._end("failed", outcome, "the tool's result says that it failed")
        else:
            self._end("completed", outcome)

    def cancel(self) -> None:
        """Its principal cancels it."""
        if not self.state.over:
            self._end("cancelled", Fault("CANCELLED", "the task was cancelled"), "cancelled on request")
            self._stop("the task was cancelled")

    def expired(self) -> None:
        """Its time to live is over: stop it if it still runs."""
        self._timer.cancel()
        if not self.state.over:
            self._end("failed", unknown_task(), "its time to live is over")
            self._stop("the task's time to live is over")

    def _stop(self, reason: str) -> None:
        self._work.cancelled = True
        self._work.stop(reason)

    def _end(self, status: Status, outcome: bytes | Fault, message: str | None = None) -> None:
        self.outcome = outcome
        questions, self._questions = list(self._questions.values()), {}
        self._set(status, message)
        for question in questions:
            question.answer.cancel()
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            self._answer(exchange)

    def _set(self, status: Status, message: str | None) -> None:
        before = self.state
        assert status == before.status or status in TRANSITIONS[before.status], (before.status, status)
        cut = None if message is None else message[:MAX_MESSAGE_CHARS]
        self.state = msgspec.structs.replace(before, status=status, message=cut, updated_at=_now())
        if self.modern:
            self._tasks.listeners.task_changed(self.id, self.detailed())
        elif self.session is not None:
            self.session.notify(STATUS_CHANGED[False], msgspec.json.encode(self.detailed()))

    # Its questions.

    async def ask(self, method: str, params: bytes, read: Read[T], key: str | None) -> T:
        """The principal's answer to a question: in `tasks/update`, or on the stream of a `tasks/result`."""
        if self.state.over:
            raise Fault("CANCELLED", "the task is over")
        name = self._key(method, key)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._questions[name] = _Question(method, params, read, answer)
        self._set("input_required", self.state.message)
        self._ask_waiting()
        try:
            return await answer  # type: ignore[return-value]
        finally:
            was_open = self._questions.pop(name, None) is not None
            if was_open and not self._questions and self.state.status not in TERMINAL:
                self._set("working", self.state.message)

    def answered(self, responses: bytes) -> None:
        """Take answers to open questions, and ignore others. Raises INVALID_PARAMS (SEP-2663, Task Update)."""
        given = members(responses)
        read: list[tuple[str, _Question, object]] = []
        for key, question in self._questions.items():
            if key in given and not question.answer.done():
                try:
                    read.append((key, question, question.read(bytes(given[key]))))
                except UnfitAnswer:
                    continue
                except Fault as fault:
                    raise Fault("INVALID_PARAMS", f"inputResponses.{key}: {fault.message}") from None
        for key, question, value in read:
            del self._questions[key]
            question.answer.set_result(value)
        if read and not self._questions:
            self._set("working", self.state.message)

    def _key(self, method: str, key: str | None) -> str:
        """A key that this task uses only once (SEP-2663, Task Update Requests)."""
        wanted = key if key is not None else f"{method.partition('/')[0]}-{len(self._keys) + 1}"
        name, number = wanted, 1
        while name in self._keys:
            number += 1
            name = f"{wanted}-{number}"
        self._keys.add(name)
        return name

    def _ask_waiting(self) -> None:
        """Send every question that is not open to the latest request that waits for the outcome (2025-11-25)."""
        if self.modern or not self._waiting:
            return
        for question in list(self._questions.values()):
            if not question.open and not question.answer.done():
                self._send(self._waiting[-1], question)

    def _send(self, exchange: Exchange, question: _Question) -> None:
        try:
            answer = exchange.ask(question.method, with_related(question.params, self.id))
        except Fault as fault:
            question.answer.set_exception(fault)
            return
        question.open = True
        question.attempts += 1

        def settled(future: asyncio.Future[bytes]) -> None:
            question.open = False
            if not question.answer.done():
                self._settle(question, future)

        answer.add_done_callback(settled)

    def _settle(self, question: _Question, future: asyncio.Future[bytes]) -> None:
        if future.cancelled():
            # The client has left: the next request that waits for the outcome carries the question.
            self._ask_waiting()
            return
        cause = future.exception()
        if cause is not None:
            question.answer.set_exception(cause)
            return
        try:
            question.answer.set_result(question.read(future.result()))
        except UnfitAnswer as unfit:
            if question.attempts < MAX_ATTEMPTS:
                self._ask_waiting()
            else:
                question.answer.set_exception(unfit_answer(unfit))
        except Fault as fault:
            question.answer.set_exception(malformed_answer(fault))


def _is_error(result: bytes) -> bool:
    return read_members(result).failed is not False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
