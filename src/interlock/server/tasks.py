"""Tasks of a server's own: a function that goes on after its request was answered, and what is kept of it.

Each belongs to an owner and lives for its time to live, whatever becomes of the connection it was begun on. To anyone
else it does not exist. What is full refuses a new one; nothing is thrown away before its time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members
from interlock.protocols.mcp.tasks import TERMINAL, TRANSITIONS, Status, TaskState, unknown_task, with_related
from interlock.transports.exchange import Exchange, Session
from interlock.transports.parked_request import Unfit
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.work import Work

T = TypeVar("T")
Read = Callable[[bytes], T]

ASK_AGAIN: Final = 3
LONGEST_MESSAGE: Final = 2_000
PAGE: Final = 100


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be kept, and for how long."""

    tasks: int = 4096
    """Tasks of all owners together, running or kept for their outcome."""
    per_owner: int = 256
    """Tasks of one owner."""
    ttl_ms: int = 3_600_000
    """How long one is kept from its creation, where the client does not say."""
    longest_ttl_ms: int = 86_400_000
    """The most that a client may ask for."""
    poll_ms: int = 1_000
    """How often clients are asked to look."""
    held_bytes: int = 64 * 1024 * 1024
    """Outcomes that are kept, all together."""


class Tasks:
    """Every task of a server, by its id."""

    def __init__(self, limits: TaskLimits, told: Callable[[RunningTask], None]) -> None:
        self.limits = limits
        self._told = told
        self._tasks: dict[str, RunningTask] = {}
        self._owners: Counter[str] = Counter()
        self._held = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def open(self, work: Work, ttl_ms: int | None) -> RunningTask:
        """A place for a call that becomes a task. Raises RESOURCE_EXHAUSTED."""
        limits = self.limits
        if len(self._tasks) >= limits.tasks or self._owners[work.owner] >= limits.per_owner:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                "too many tasks are kept",
                hint="call it without a task, or wait until some have expired",
                retry_after_ms=5000,
            )
        ttl = min(limits.ttl_ms if ttl_ms is None else ttl_ms, limits.longest_ttl_ms)
        task = RunningTask(self, work, ttl, limits.poll_ms)
        self._tasks[task.id] = task
        self._owners[task.owner] += 1
        task.timer = asyncio.get_running_loop().call_later(ttl / 1000, self._expire, task)
        return task

    def find(self, id: str, owner: str, modern: bool) -> RunningTask:
        """A task of this owner, in the form that it was begun in. Raises for every other id, in the same words."""
        task = self._tasks.get(id)
        if task is None or task.owner != owner or task.modern != modern:
            raise unknown_task()
        return task

    def of(self, owner: str) -> Iterator[RunningTask]:
        """The tasks of an owner that were begun in the form of 2025-11-25, the oldest first."""
        return (task for task in self._tasks.values() if task.owner == owner and not task.modern)

    def hold(self, size: int) -> bool:
        """Take room for an outcome. False when there is none."""
        if self._held + size > self.limits.held_bytes:
            return False
        self._held += size
        return True

    def changed(self, task: RunningTask) -> None:
        """Tell whoever wants to know."""
        self._told(task)

    def close(self) -> None:
        """Stop whatever runs."""
        for task in list(self._tasks.values()):
            self._expire(task)

    def _expire(self, task: RunningTask) -> None:
        if self._tasks.pop(task.id, None) is None:
            return
        self._held -= task.held
        self._owners[task.owner] -= 1
        if not self._owners[task.owner]:
            del self._owners[task.owner]
        task.expired()


class _Question(msgspec.Struct, eq=False):
    method: str
    params: bytes
    read: Callable[[bytes], object]
    answer: asyncio.Future[object]
    asked: int = 0
    open: bool = False
    """Whether it was put to the client, which has not answered yet (2025-11-25)."""


class RunningTask:
    """One task: the function that runs, its state, its open questions, and its outcome."""

    def __init__(self, tasks: Tasks, work: Work, ttl_ms: int, poll_ms: int) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = work.owner
        self.modern = work.dialect.modern
        self.session: Session | None = work.exchange.session
        """Where its owner was last seen (2025-11-25), to be told of it there."""
        self.timer: asyncio.TimerHandle | None = None
        self.held = 0
        self.outcome: bytes | Fault | None = None
        self._tasks = tasks
        self._work = work
        now = _now()
        self.state = TaskState(self.id, "working", now, now, ttl_ms, poll_ms)
        self._questions: dict[str, _Question] = {}
        self._keys: set[str] = set()
        self._waiting: list[Exchange] = []
        meta = work.exchange.preview.meta
        self._token = None if meta is None else meta.progress_token

    # How it is told of.

    def created(self, signed: object) -> bytes:
        """The answer to the call that it was (CreateTaskResult)."""
        said = self.state.to_wire(self.modern)
        if not self.modern:
            return msgspec.json.encode({"task": said})
        return msgspec.json.encode({"resultType": "task", **said, "_meta": signed})

    def detailed(self) -> dict[str, object]:
        """Its state, in the stateless era with its outcome or its open questions (SEP-2663, Task Status)."""
        said = self.state.to_wire(self.modern)
        if not self.modern:
            return said
        if self.state.status == "input_required":
            said["inputRequests"] = {
                key: {"method": asked.method, "params": msgspec.Raw(asked.params)}
                for key, asked in self._questions.items()
            }
        elif self.state.status == "completed" and isinstance(self.outcome, bytes):
            said["result"] = msgspec.Raw(self.outcome)
        elif self.state.status == "failed" and isinstance(self.outcome, Fault):
            said["error"] = self.outcome.render(self._work.dialect.error_dialect)
        return said

    def wait(self, exchange: Exchange) -> None:
        """Answer with the outcome, now or when there is one; questions go to whoever waits (2025-11-25)."""
        self.session = exchange.session
        if self.state.over:
            self._answer(exchange)
            return
        self._waiting.append(exchange)
        exchange.on_cancel = lambda _: self._left(exchange)
        self._ask_whoever_waits()

    def _answer(self, exchange: Exchange) -> None:
        outcome = self.outcome
        if isinstance(outcome, bytes):
            exchange.result(with_related(outcome, self.id))
        else:
            exchange.fail(outcome or Fault("CANCELLED", "the task was cancelled"))

    def _left(self, exchange: Exchange) -> None:
        if exchange in self._waiting:
            self._waiting.remove(exchange)

    # How it goes on.

    def progressed(self, done: float, total: float | None, message: str | None) -> None:
        """The function says how far it is. Its words are the task's status message."""
        if self.state.over:
            return
        if message is not None:
            self._set(self.state.status, message)
        if self._token is None or self.modern:
            # The stateless era has no progress of tasks (SEP-2663, Task Status Notifications).
            return
        said: dict[str, object] = {PROGRESS_TOKEN: self._token, "progress": done}
        if total is not None:
            said["total"] = total
        if message is not None:
            said["message"] = message
        self.tell(PROGRESS, said)

    def tell(self, method: str, said: dict[str, object]) -> None:
        """Tell the owner's session something of this task (2025-11-25)."""
        if self.session is not None and not self.modern:
            self.session.notify(method, with_related(msgspec.json.encode(said), self.id))

    def done(self, outcome: bytes | Fault) -> None:
        """The function is through. What was cancelled stays cancelled."""
        if self.state.over:
            return
        if isinstance(outcome, bytes):
            if not self._tasks.hold(len(outcome)):
                outcome = Fault("RESOURCE_EXHAUSTED", "there is no room to keep the task's result")
            else:
                self.held = len(outcome)
        self.outcome = outcome
        if isinstance(outcome, Fault):
            self._end("failed", outcome.message)
        elif not self.modern and _is_error(outcome):
            # Only the form of 2025-11-25 counts a tool's own error as a failure of the task.
            self._end("failed", "the tool's result says that it failed")
        else:
            self._end("completed")

    def cancel(self) -> None:
        """The owner does not want it any more."""
        if not self.state.over:
            self.outcome = Fault("CANCELLED", "the task was cancelled")
            self._end("cancelled", "cancelled on request")
            self._work.cancelled = True
            self._work.stop("the task was cancelled")

    def expired(self) -> None:
        """Its time is over: it is forgotten, and stopped if it still runs."""
        if self.timer is not None:
            self.timer.cancel()
        if self.state.over:
            return
        self.outcome = unknown_task()
        self._end("failed", "its time to live is over")
        self._work.cancelled = True
        self._work.stop("the task's time to live is over")

    def _end(self, status: Status, message: str | None = None) -> None:
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
        said = None if message is None else message[:LONGEST_MESSAGE]
        self.state = msgspec.structs.replace(before, status=status, message=said, updated_at=_now())
        self._tasks.changed(self)

    # How it asks.

    async def ask(self, method: str, params: bytes, read: Read[T], key: str | None) -> T:
        """The owner's answer to a question: in `tasks/update`, or on the stream of a `tasks/result`."""
        if self.state.over:
            raise Fault("CANCELLED", "the task is over")
        name = self._key(method, key)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._questions[name] = _Question(method, params, read, answer)
        self._set("input_required", self.state.message)
        self._ask_whoever_waits()
        try:
            return await answer  # type: ignore[return-value]
        finally:
            if (
                self._questions.pop(name, None) is not None
                and not self._questions
                and self.state.status not in TERMINAL
            ):
                self._set("working", self.state.message)

    def answered(self, responses: bytes) -> None:
        """Answers to open questions; those to none are ignored. Raises INVALID_PARAMS (SEP-2663, Task Update)."""
        given = members(responses)
        read: list[tuple[str, _Question, object]] = []
        for key, question in self._questions.items():
            if key in given and not question.answer.done():
                try:
                    read.append((key, question, question.read(bytes(given[key]))))
                except Unfit:
                    continue
                except Fault as fault:
                    raise Fault("INVALID_PARAMS", f"inputResponses.{key}: {fault.message}") from None
        for key, question, value in read:
            del self._questions[key]
            question.answer.set_result(value)
        if read and not self._questions:
            self._set("working", self.state.message)

    def _key(self, method: str, key: str | None) -> str:
        """A key that this task has never used and never will again (SEP-2663, Task Update Requests)."""
        wanted = key if key is not None else f"{method.partition('/')[0]}-{len(self._keys) + 1}"
        name, number = wanted, 1
        while name in self._keys:
            number += 1
            name = f"{wanted}-{number}"
        self._keys.add(name)
        return name

    def _ask_whoever_waits(self) -> None:
        """Put every question that nobody was asked yet to whoever waits for the outcome (2025-11-25)."""
        if self.modern or not self._waiting:
            return
        for question in list(self._questions.values()):
            if not question.open and not question.answer.done():
                self._put(self._waiting[-1], question)

    def _put(self, exchange: Exchange, question: _Question) -> None:
        try:
            asking = exchange.ask(question.method, with_related(question.params, self.id))
        except Fault as fault:
            question.answer.set_exception(fault)
            return
        question.open = True
        question.asked += 1

        def settled(future: asyncio.Future[bytes]) -> None:
            question.open = False
            if not question.answer.done():
                self._settle(question, future)

        asking.add_done_callback(settled)

    def _settle(self, question: _Question, future: asyncio.Future[bytes]) -> None:
        if future.cancelled():
            # Whoever was asked has gone; the next to wait for the outcome is asked.
            self._ask_whoever_waits()
            return
        cause = future.exception()
        if cause is not None:
            question.answer.set_exception(cause)
            return
        try:
            question.answer.set_result(question.read(future.result()))
        except Unfit as unfit:
            if question.asked < ASK_AGAIN:
                self._ask_whoever_waits()
            else:
                reason = f"the client's answer does not fit what was asked for: {unfit}"
                question.answer.set_exception(Fault("UPSTREAM_ERROR", reason))
        except Fault as fault:
            question.answer.set_exception(Fault("UPSTREAM_ERROR", f"the client's answer: {fault.message}"))


def _is_error(result: bytes) -> bool:
    return read_members(result).failed is not False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
