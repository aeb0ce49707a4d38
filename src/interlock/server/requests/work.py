"""One run of an author's function for a client, and how the function asks that client something on the way.

The function is written once and works in both eras. Where servers may send requests, a question is one. Where they may
not, the call is parked and answered with `input_required`, and goes on when the client repeats it with the answers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from interlock.protocols.mcp.input_requests import QUESTION_KEY
from interlock.protocols.mcp.meta import members, with_meta
from interlock.protocols.mcpl.scopes import ElevateResult, Scope
from interlock.protocols.mgp.callbacks import CallbackAnswer, CallbackType
from interlock.protocols.mgp.permissions import Grant
from interlock.server.requests.content import Members
from interlock.server.requests.session import Exchange
from interlock.server.requests.threads import Threads
from interlock.transports.host_requests import HostKey
from interlock.transports.requests.call_parking import CallParking, binding_of
from interlock.transports.requests.parked_request import ParkedRequest, UnfitAnswer
from interlock.wire.errors import Fault

T = TypeVar("T")
Read: TypeAlias = Callable[[bytes], T]
"""Reads an answer. Raises `UnfitAnswer` where the person should be asked again, INVALID_PARAMS for a malformed one."""

MAX_ATTEMPTS: Final = 3
"""How often one question is asked while its answers do not fit."""


class Decisions(Protocol):
    """The decisions of clients about permissions."""

    def grant(self, principal_name: str, permission: str) -> Grant | None:
        """A client's decision about a permission; None without one."""


class Callbacks(Protocol):
    """Asks clients that agreed on MGP's callbacks."""

    async def ask(
        self, work: Work, kind: CallbackType, message: str, options: Sequence[str], timeout_s: float
    ) -> CallbackAnswer:
        """Ask the client of a call, and wait for the answer."""

    def tell(self, work: Work, message: str) -> None:
        """Send the client of a call a notification, which needs no answer."""


class Scopes(Protocol):
    """Asks hosts for scopes (MCPL 0.4)."""

    async def elevate(self, host: HostKey | None, feature: str, scope: Scope) -> ElevateResult:
        """Ask a host for a scope."""


class RunningServer(Protocol):
    """The server that a function runs in."""

    name: str
    version: str
    threads: Threads

    @property
    def permissions(self) -> Decisions:
        """The decisions of clients about the permissions that the server needs."""

    @property
    def callbacks(self) -> Callbacks:
        """Asks clients that agreed on MGP's callbacks."""

    @property
    def scopes(self) -> Scopes:
        """Asks hosts for scopes."""

    @property
    def signed_meta(self) -> Mapping[str, object]:
        """The `_meta` of every result of the stateless era: it names the server."""


class TaskHandle(Protocol):
    """The task that a call has become for its client."""

    id: str

    def on_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Take a progress report of the function."""

    def notify(self, method: str, params: Members) -> None:
        """Send the caller a notification about this task."""

    async def ask(self, method: str, params: bytes, read: Read[T], key: str | None) -> T:
        """Ask the caller a question."""

    def done(self, outcome: bytes | Fault) -> None:
        """Take the outcome of the function."""


class SentItems(Protocol):
    """The items of a generator, as they are sent to the client."""

    def member(self) -> bytes:
        """The `_mgp` member of the result."""

    async def finish(self) -> None:
        """Wait until the last chunk was sent."""

    def stop(self) -> None:
        """The call was cancelled."""


class Work(ParkedRequest):
    """A function that runs for a client."""

    __slots__ = (
        "_given",
        "_limit",
        "_limit_s",
        "_thread_questions",
        "detach",
        "items",
        "running",
        "server",
        "session",
        "stopped",
        "stream",
        "streams",
        "task",
        "trace",
    )

    def __init__(
        self, server: RunningServer, exchange: Exchange, parking: CallParking, given: msgspec.Raw | None = None
    ) -> None:
        super().__init__(exchange, parking, lambda: binding_of(exchange))
        self.server = server
        self.session = exchange.session
        """The session that it runs for (handshake era)."""
        self.task: asyncio.Task[None] | None = None
        """The asyncio task that runs the function."""
        self.running: TaskHandle | None = None
        """The MCP task that this call has become for its client."""
        self.detach: Callable[[Work], None] | None = None
        """Makes it an MCP task, if the client accepts one and the function decides when."""
        self.streams = False
        """Whether the client asked for chunks, and agreed on them."""
        self.stream: SentItems | None = None
        """The chunks that are sent."""
        self.trace = ""
        """The trace id that the client gave the call (MGP, Trace ID Propagation)."""
        self.items: list[Any] = []
        """The items of a generator so far."""
        self.stopped = False
        """Whether it was cancelled: nothing more of it is sent."""
        self._thread_questions: set[concurrent.futures.Future[Any]] = set()
        self._given = {} if given is None else members(bytes(given))
        self._limit: asyncio.Timeout | None = None
        self._limit_s = 0.0

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError when the function runs longer than this without a progress report."""
        self._limit_s = seconds
        async with asyncio.timeout(seconds) as self._limit:
            yield

    @property
    def overdue(self) -> bool:
        """Whether the time limit has ended the function."""
        return self._limit is not None and self._limit.expired()

    def extend_limit(self) -> None:
        """Start the time limit anew, since the function has reported progress."""
        limit = self._limit
        if limit is not None and limit.when() is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + self._limit_s)

    def close_stream(self) -> None:
        """Let the connection of the client go while the function runs, where the client can come back."""
        if self.attended:
            self.exchange.close_stream()

    def stop(self, reason: str) -> None:
        """Cancel the function. One in a thread runs on, but waits for no answer; a generator ends at its next item."""
        self.stopped = True
        if self.stream is not None:
            self.stream.stop()
        if self.task is not None:
            self.task.cancel()
        for question in list(self._thread_questions):
            question.cancel()

    def ask_from_thread(
        self, question: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
    ) -> concurrent.futures.Future[T]:
        """Run a question on the server's loop for a function in a thread, which waits for the future."""
        future = asyncio.run_coroutine_threadsafe(question, loop)
        self._thread_questions.add(future)
        future.add_done_callback(self._thread_questions.discard)
        return future

    async def ask(self, method: str, params: Members, read: Read[T], key: str | None) -> T:
        """The client's answer to a question."""
        encoded = msgspec.json.encode(params)
        self.check_capability(method, encoded)
        if self.running is not None:
            return await self.running.ask(method, encoded, read, key)
        if not self.dialect.modern:
            named = encoded if key is None else with_meta(encoded, {QUESTION_KEY: key})
            return await self._ask_now(method, named, read)
        if key is not None and key in self._given:
            # The request brought this answer before the question was asked, so the question has a name of its own.
            with contextlib.suppress(UnfitAnswer, Fault):
                return read(bytes(self._given.pop(key)))
        answer: T = await self.pose(method, encoded, read, key)  # type: ignore[assignment]
        return answer

    async def _ask_now(self, method: str, params: bytes, read: Read[T]) -> T:
        reason = ""
        for _ in range(MAX_ATTEMPTS):
            answer = await self.exchange.ask(method, params)
            try:
                return read(answer)
            except UnfitAnswer as unfit:
                reason = str(unfit)
            except Fault as fault:
                raise malformed_answer(fault) from None
        raise unfit_answer(reason)


def malformed_answer(fault: Fault) -> Fault:
    """The fault for an invalid answer of the client."""
    return Fault("UPSTREAM_ERROR", f"the client's answer: {fault.message}")


def unfit_answer(reason: object) -> Fault:
    """The client's last answer still did not fit."""
    return Fault("UPSTREAM_ERROR", f"the client's answer does not fit the question: {reason}")
