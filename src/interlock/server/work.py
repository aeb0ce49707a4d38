"""One run of an author's function for a client, and how it asks that client something on the way.

Written once, it works in both eras: where servers may send requests, a question is one; where they may not, the call is
parked and answered with `input_required`, and goes on when the client repeats it with the answers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from interlock.protocols.mcp.meta import members
from interlock.transports.call_parking import CallParking, binding_of
from interlock.transports.exchange import Exchange
from interlock.transports.parked_request import ParkedRequest, Unfit
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.tasks import RunningTask

T = TypeVar("T")
Read = Callable[[bytes], T]
"""Reads an answer. Raises `Unfit` where the person should be asked again, INVALID_PARAMS for what is no answer."""

_ASK_AGAIN: Final = 3


class Work(ParkedRequest):
    """A function that runs for a client."""

    __slots__ = ("_from_afar", "_given", "_limit", "_limit_s", "detach", "running", "task")

    def __init__(self, exchange: Exchange, parking: CallParking, given: msgspec.Raw | None = None) -> None:
        super().__init__(exchange, parking, lambda: binding_of(exchange))
        self.task: asyncio.Task[None] | None = None
        self.running: RunningTask | None = None
        """The task that it is for its client, once it is one."""
        self.detach: Callable[[Work], None] | None = None
        """Makes it one, where the client takes that for an answer and the function says when."""
        self._from_afar: set[concurrent.futures.Future[Any]] = set()
        """Questions that threads wait for."""
        self._given = {} if given is None else members(bytes(given))
        self._limit: asyncio.Timeout | None = None
        self._limit_s = 0.0

    # How long it may take.

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError when it takes longer without a word of progress."""
        self._limit_s = seconds
        async with asyncio.timeout(seconds) as self._limit:
            yield

    @property
    def overdue(self) -> bool:
        """Whether it took longer than it may."""
        return self._limit is not None and self._limit.expired()

    def progressed(self) -> None:
        """It says that it goes on, and so has its whole time again."""
        limit = self._limit
        if limit is not None and limit.when() is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + self._limit_s)

    def stop(self, reason: str) -> None:
        """Cancel the function. One in a thread runs on, but waits for no answer."""
        if self.task is not None:
            self.task.cancel()
        for question in list(self._from_afar):
            question.cancel()

    def ask_from_afar(
        self, asking: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
    ) -> concurrent.futures.Future[T]:
        """The same for a thread, which can wait for what this gives."""
        question = asyncio.run_coroutine_threadsafe(asking, loop)
        self._from_afar.add(question)
        question.add_done_callback(self._from_afar.discard)
        return question

    async def ask(self, method: str, params: dict[str, object], read: Read[T], key: str | None) -> T:
        """The client's answer to a question."""
        encoded = msgspec.json.encode(params)
        self.check_capability(method, encoded)
        if self.running is not None:
            return await self.running.ask(method, encoded, read, key)
        if not self.dialect.modern:
            return await self._ask_now(method, encoded, read)
        if key is not None and key in self._given:
            # An answer that came before its question, which only a question with a name of its own can have.
            try:
                return read(bytes(self._given.pop(key)))
            except (Unfit, Fault):
                pass
        answer: T = await self.pose(method, encoded, read, key)  # type: ignore[assignment]
        return answer

    async def _ask_now(self, method: str, params: bytes, read: Read[T]) -> T:
        reason = ""
        for _ in range(_ASK_AGAIN):
            answer = await self.exchange.ask(method, params)
            try:
                return read(answer)
            except Unfit as unfit:
                reason = str(unfit)
            except Fault as fault:
                raise Fault("UPSTREAM_ERROR", f"the client's answer: {fault.message}") from None
        raise Fault("UPSTREAM_ERROR", f"the client's answer does not fit what was asked for: {reason}")
