"""One run of an author's function for a client, and how it asks that client something on the way.

Written once, it works in both eras: where servers may send requests, a question is one; where they may not, the call is
parked and answered with `input_required`, and goes on when the client repeats it with the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

import msgspec

from interlock.protocols.mcp.capabilities import missing_capability
from interlock.protocols.mcp.meta import members
from interlock.server.parked import Parking, Place, refused
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault

T = TypeVar("T")
Read = Callable[[bytes], T]
"""Reads an answer. Raises `Unfit` where the person should be asked again, INVALID_PARAMS for what is no answer."""

_SETTLE_TURNS: Final = 3
"""Questions asked within so many turns of the loop go out together, as those of `asyncio.gather` do."""
_ASK_AGAIN: Final = 3
_KEPT_BYTES: Final = 64 * 1024


class Unfit(ValueError):
    """An answer that is well-formed and yet not what was asked for."""


class _Question(msgspec.Struct):
    method: str
    params: bytes
    read: Callable[[bytes], object]
    answer: asyncio.Future[object]


class Work:
    """A function that runs for a client."""

    __slots__ = (
        "_answered",
        "_given",
        "_limit",
        "_limit_s",
        "_made_keys",
        "_outcome",
        "_parking",
        "_place",
        "_questions",
        "_said",
        "_waiting",
        "cancelled",
        "dialect",
        "exchange",
        "task",
    )

    def __init__(self, exchange: Exchange, parking: Parking, given: msgspec.Raw | None = None) -> None:
        self.exchange = exchange
        """The request it runs for; after a retry, the latest."""
        self.dialect = exchange.dialect
        self.task: asyncio.Task[None] | None = None
        self.cancelled = False
        self._parking = parking
        self._given = {} if given is None else members(bytes(given))
        self._limit: asyncio.Timeout | None = None
        self._limit_s = 0.0
        self._waiting = [exchange]
        self._questions: dict[str, _Question] = {}
        self._place: Place | None = None
        self._answered: tuple[int, bytes] = (0, b"")
        self._said = b""
        self._made_keys = 0
        self._outcome: bytes | Fault | None = None
        exchange.on_cancel = lambda _: self._withdrawn(exchange)

    # How it ends.

    @property
    def owner(self) -> str:
        return self.exchange.caller.owner

    @property
    def finished(self) -> bool:
        return self._outcome is not None

    @property
    def asked(self) -> bool:
        """Whether it has asked anything, so that its outcome depends on more than the request."""
        return self._place is not None

    @property
    def attended(self) -> bool:
        """Whether a request is open that progress and log messages can go to."""
        return bool(self._waiting)

    def done(self, outcome: bytes | Fault) -> None:
        """The function is through."""
        self._outcome = outcome
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            _answer(exchange, outcome)
        place = self._place
        if place is not None:
            if isinstance(outcome, bytes) and len(outcome) <= _KEPT_BYTES and not self.cancelled:
                self._parking.keep(place)
            else:
                self._parking.leave(place)

    def expired(self) -> None:
        """No answer came in time."""
        self._place = None
        self._cancel()

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

    def _withdrawn(self, exchange: Exchange) -> None:
        if exchange not in self._waiting:
            return
        self._waiting.remove(exchange)
        if not self._waiting:
            self._cancel()

    def _cancel(self) -> None:
        self.cancelled = True
        if self._place is not None:
            self._parking.leave(self._place)
            self._place = None
        if self.task is not None:
            self.task.cancel()

    # How it asks.

    async def ask(self, method: str, params: dict[str, object], read: Read[T], key: str | None) -> T:
        """The client's answer to a question."""
        encoded = msgspec.json.encode(params)
        self._check_capability(method, encoded)
        if not self.dialect.modern:
            return await self._ask_now(method, encoded, read)
        if key is not None and key in self._given:
            # An answer that came before its question, which only a question with a name of its own can have.
            try:
                return read(bytes(self._given.pop(key)))
            except (Unfit, Fault):
                pass
        return await self._ask_by_parking(method, encoded, read, key)

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

    async def _ask_by_parking(self, method: str, params: bytes, read: Read[T], key: str | None) -> T:
        if key is None:
            self._made_keys += 1
            key = f"{method.partition('/')[0]}-{self._made_keys}"
        if key in self._questions:
            raise ValueError(f"two questions at once under the key {key!r}")
        if self._place is None:
            self._place = self._parking.take_place(self, self.exchange)
        loop = asyncio.get_running_loop()
        question = _Question(method, params, read, loop.create_future())
        self._questions[key] = question
        self._speak_soon(_SETTLE_TURNS)
        try:
            answer: T = await question.answer  # type: ignore[assignment]
            return answer
        finally:
            self._questions.pop(key, None)

    def _check_capability(self, method: str, params: bytes) -> None:
        if not self.dialect.capabilities.can_answer(method, params):
            needed = missing_capability(method, params)
            name = " and ".join(needed)
            raise Fault(
                "MISSING_CAPABILITY",
                f"this needs a client that declares the {name} capability",
                data={"requiredCapabilities": needed},
            )

    def _speak_soon(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._speak_soon, turns - 1)
        else:
            self._speak()

    def _speak(self) -> None:
        """Hand the open questions to whoever waits, and stop waiting for anything but their answers."""
        open_questions = {key: asked for key, asked in self._questions.items() if not asked.answer.done()}
        place = self._place
        if not open_questions or not self._waiting or place is None or self.finished:
            return
        try:
            for asked in open_questions.values():
                self._check_capability(asked.method, asked.params)
            state = self._parking.next_round(place)
        except Fault as fault:
            for asked in open_questions.values():
                asked.answer.set_exception(fault)
            return
        requests = {
            key: {"method": asked.method, "params": msgspec.Raw(asked.params)} for key, asked in open_questions.items()
        }
        self._said = msgspec.json.encode(
            {"resultType": "input_required", "inputRequests": requests, "requestState": state}
        )
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.result(self._said)

    # How it goes on.

    def resume(self, exchange: Exchange, round: int, given: bytes) -> None:
        """A retry with answers. The same one again joins the first; another one to a round already answered is refused.

        Raises REQUEST_STATE_REFUSED, or INVALID_PARAMS for answers that are none; then nothing has changed.
        """
        place = self._place
        digest = hashlib.sha256(given).digest()
        if place is None:
            raise refused()
        if round == place.round and self._answered[0] < round:
            answers = self._read(members(given))
            self._answered = (round, digest)
            self._parking.stop_clock(place)
            self._attach(exchange)
            for question, answer in answers:
                if not question.answer.done():
                    question.answer.set_result(answer)
            self._speak_soon(_SETTLE_TURNS)
        elif self._answered != (round, digest):
            raise refused()
        elif self._outcome is not None:
            _answer(exchange, self._outcome)
        elif place.round > round:
            exchange.result(self._said)
        else:
            self._attach(exchange)

    def _read(self, given: dict[str, msgspec.Raw]) -> list[tuple[_Question, object]]:
        answers: list[tuple[_Question, object]] = []
        for key, question in self._questions.items():
            if key not in given:
                continue
            try:
                answers.append((question, question.read(bytes(given[key]))))
            except Unfit:
                continue
            except Fault as fault:
                raise Fault("INVALID_PARAMS", f"inputResponses.{key}: {fault.message}") from None
        return answers

    def _attach(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.dialect = exchange.dialect
        self._waiting.append(exchange)
        exchange.on_cancel = lambda _: self._withdrawn(exchange)


def _answer(exchange: Exchange, outcome: bytes | Fault) -> None:
    if isinstance(outcome, Fault):
        exchange.fail(outcome)
    else:
        exchange.result(outcome)
