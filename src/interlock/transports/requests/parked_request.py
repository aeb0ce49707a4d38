"""A request of the stateless era that is answered with questions and continues when the client repeats it.

One or more open questions make a round: the waiting request is answered with `input_required`, and its work continues.
A repeated retry joins the first. A different retry of an answered round is refused.
"""

from __future__ import annotations

import abc
import asyncio
import hashlib
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from interlock.protocols.mcp.meta import members
from interlock.transports.exchange import Exchange, check_capability
from interlock.transports.requests.call_parking import CallParking, ParkedCall, refused
from interlock.wire.errors import ErrorObject, Fault

Outcome: TypeAlias = bytes | Fault | ErrorObject
"""How a call ended: its result, our error, or the error of a server behind us."""

_SETTLE_TURNS: Final = 3
"""Questions within this many turns of the loop are sent together, such as those of `asyncio.gather`."""
_KEPT_BYTES: Final = 64 * 1024


class UnfitAnswer(ValueError):
    """An answer is well-formed, but does not fit the question."""


class _Question(msgspec.Struct):
    method: str
    params: bytes
    read: Callable[[bytes], object]
    answer: asyncio.Future[object]


class ParkedRequest(abc.ABC):
    """Work that is done for a client, and how that client is asked."""

    __slots__ = (
        "_answered",
        "_bind",
        "_made_keys",
        "_outcome",
        "_parked_call",
        "_parking",
        "_questions",
        "_questions_result",
        "_waiting",
        "cancelled",
        "dialect",
        "exchange",
    )

    def __init__(self, exchange: Exchange, parking: CallParking, bind: Callable[[], bytes]) -> None:
        self.exchange = exchange
        """The request it is done for; after a retry, the latest."""
        self.dialect = exchange.dialect
        self.cancelled = False
        self._parking = parking
        self._bind = bind
        self._waiting = [exchange]
        self._questions: dict[str, _Question] = {}
        self._parked_call: ParkedCall | None = None
        self._answered: tuple[int, bytes] = (0, b"")
        self._questions_result = b""
        self._made_keys = 0
        self._outcome: Outcome | None = None
        exchange.on_cancel = lambda reason: self._withdrawn(exchange, reason)

    @abc.abstractmethod
    def stop(self, reason: str) -> None:
        """Nobody wants the work done any more."""

    # How it ends.

    @property
    def principal_name(self) -> str:
        """The principal that may go on with the request."""
        return self.exchange.caller.principal_name

    @property
    def finished(self) -> bool:
        """Whether it is over, and only stays for a retry whose answer was lost."""
        return self._outcome is not None

    @property
    def asked(self) -> bool:
        """Whether it has asked anything, so that its outcome depends on more than the request."""
        return self._parked_call is not None

    @property
    def attended(self) -> bool:
        """Whether a request is open that progress and log messages can go to."""
        return bool(self._waiting)

    def done(self, outcome: Outcome) -> None:
        """The work is through."""
        if self._outcome is not None:
            return
        self._outcome = outcome
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            _answer(exchange, outcome)
        parked = self._parked_call
        if parked is not None:
            small = not isinstance(outcome, bytes) or len(outcome) <= _KEPT_BYTES
            # A result that came while nobody waited is kept at any size: nobody has read it yet.
            if not self.cancelled and (small or not waiting):
                self._parking.keep(parked, len(outcome) if isinstance(outcome, bytes) else 0)
            else:
                self._parking.leave(parked)

    def expired(self) -> None:
        """No answer came in time."""
        self._parked_call = None
        self._cancel("no answer came in time")

    def _withdrawn(self, exchange: Exchange, reason: str) -> None:
        if exchange not in self._waiting:
            return
        self._waiting.remove(exchange)
        if not self._waiting:
            self._cancel(reason)

    def _cancel(self, reason: str) -> None:
        self.cancelled = True
        if self._parked_call is not None:
            self._parking.leave(self._parked_call)
            self._parked_call = None
        if not self.finished:
            self.stop(reason)

    # How it asks.

    def check_capability(self, method: str, params: bytes) -> None:
        """A client is only asked what it said it answers. Raises MISSING_CAPABILITY."""
        check_capability(self.dialect, method, params)

    def pose(
        self, method: str, params: bytes, read: Callable[[bytes], object], key: str | None = None
    ) -> asyncio.Future[object]:
        """Ask the client, together with other questions of the same moment. `read` decodes the answer; if it raises
        `UnfitAnswer`, the client is asked again."""
        if key is None:
            self._made_keys += 1
            key = f"{method.partition('/')[0]}-{self._made_keys}"
        if key in self._questions:
            raise ValueError(f"two questions at once under the key {key!r}")
        if self._parked_call is None:
            self._parked_call = self._parking.park(self, self._bind())
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._questions[key] = _Question(method, params, read, answer)
        answer.add_done_callback(lambda _: self._questions.pop(key, None))
        self.speak_soon()
        return answer

    def speak_soon(self, turns: int = _SETTLE_TURNS) -> None:
        """Hand out the questions when all that are asked together have been."""
        if turns:
            asyncio.get_running_loop().call_soon(self.speak_soon, turns - 1)
        else:
            self.speak()

    def speak(self) -> None:
        """Hand the open questions to the waiting exchange, and wait for their answers alone."""
        open_questions = {key: question for key, question in self._questions.items() if not question.answer.done()}
        parked = self._parked_call
        if not open_questions or not self._waiting or parked is None or self.finished:
            return
        try:
            for question in open_questions.values():
                self.check_capability(question.method, question.params)
            size = sum(len(question.params) for question in open_questions.values())
            state = self._parking.next_round(parked, size)
        except Fault as fault:
            for question in open_questions.values():
                question.answer.set_exception(fault)
            return
        requests = {
            key: {"method": question.method, "params": msgspec.Raw(question.params)}
            for key, question in open_questions.items()
        }
        self._questions_result = msgspec.json.encode(
            {"resultType": "input_required", "inputRequests": requests, "requestState": state}
        )
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.result(self._questions_result)

    # How it goes on.

    def resume(self, exchange: Exchange, round: int, given: bytes) -> None:
        """A retry with answers. The same one again joins the first; another one to a round already answered is refused.

        Raises REQUEST_STATE_REFUSED, or INVALID_PARAMS for answers that are none; then nothing has changed.
        """
        parked = self._parked_call
        digest = hashlib.sha256(given).digest()
        if parked is None:
            raise refused()
        if round == parked.round and self._answered[0] < round:
            answers = self._read(members(given))
            self._answered = (round, digest)
            if self._outcome is not None:
                # It ended without waiting for the answers; this request gets the outcome.
                _answer(exchange, self._outcome)
                return
            self._parking.stop_clock(parked)
            self.attach(exchange)
            for question, answer in answers:
                if not question.answer.done():
                    question.answer.set_result(answer)
            self.speak_soon()
        elif self._answered != (round, digest):
            raise refused()
        elif self._outcome is not None:
            _answer(exchange, self._outcome)
        elif parked.round > round:
            exchange.result(self._questions_result)
        else:
            self.attach(exchange)

    def attach(self, exchange: Exchange) -> None:
        """One more request waits for the outcome, and takes the place of the one before it."""
        self.exchange = exchange
        self.dialect = exchange.dialect
        self._waiting.append(exchange)
        exchange.on_cancel = lambda reason: self._withdrawn(exchange, reason)

    def _read(self, given: dict[str, msgspec.Raw]) -> list[tuple[_Question, object]]:
        answers: list[tuple[_Question, object]] = []
        for key, question in self._questions.items():
            if key not in given:
                continue
            try:
                answers.append((question, question.read(bytes(given[key]))))
            except UnfitAnswer:
                continue
            except Fault as fault:
                raise Fault("INVALID_PARAMS", f"inputResponses.{key}: {fault.message}") from None
        return answers


def _answer(exchange: Exchange, outcome: Outcome) -> None:
    if isinstance(outcome, Fault):
        exchange.fail(outcome)
    elif isinstance(outcome, ErrorObject):
        exchange.pass_failure(outcome)
    else:
        exchange.result(outcome)
