"""A new client's call at an old server: when the server asks, the call is parked, and goes on with the client's retry.

To whoever carries the call it is one exchange from beginning to end, whichever of the client's requests it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from interlock.hub.sessions.session import Exchange
from interlock.protocols.mcp.input_requests import answer_for_old, key_of, question_for_new
from interlock.protocols.mcp.meta import members
from interlock.transports.exchange import Exchange as AnyExchange
from interlock.transports.exchange import OpenExchange
from interlock.transports.requests.call_parking import CallParking
from interlock.transports.requests.parked_request import ParkedRequest
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Id, one_line

SETTLE_SECONDS: Final = 0.05
"""How long further questions are waited for, so that a client gets them together."""


class ParkedExchange(Exchange):
    """One call, over all the requests that the client makes of it."""

    __slots__ = ("_given", "_parked_call")

    def __init__(
        self, exchange: Exchange, parking: CallParking, bind: Callable[[], bytes], given: bytes = b"{}"
    ) -> None:
        super().__init__(
            exchange.request, exchange.preview, exchange.dialect, exchange.caller, exchange.session, exchange.headers
        )
        self._parked_call = _ParkedCall(exchange, parking, bind, self)
        self._given = given
        """Answers that the request brought before anything was asked."""

    @property
    def open(self) -> bool:
        return not self._parked_call.finished and not self._parked_call.cancelled

    @property
    def attended(self) -> bool:
        """Whether the client has a request open for it, rather than a question to answer."""
        return self._parked_call.attended

    def result(self, result: bytes) -> None:
        self._parked_call.done(result)

    def fail(self, fault: Fault) -> None:
        self._parked_call.done(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self._parked_call.done(error)

    def notify(self, method: str, params: bytes) -> None:
        # While the client is asked nobody listens, and what is told of the call meanwhile is lost on it.
        if self._parked_call.attended:
            self._parked_call.exchange.notify(method, params)

    def drained(self) -> asyncio.Future[None] | None:
        return self._parked_call.exchange.drained() if self._parked_call.attended else None

    @property
    def conversation(self) -> object | None:
        return self._parked_call.exchange.conversation

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._parked_call.exchange.sibling(id)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        if not self.open:
            raise Fault("CANCELLED", "the client no longer waits for this request")
        self._parked_call.check_capability(method, params)
        key = key_of(params)
        early = self._early_answer(method, key)
        return early or self._parked_call.ask(method, one_line(question_for_new(params)), key)

    def _early_answer(self, method: str, key: str | None) -> asyncio.Future[bytes] | None:
        """The answer that the request brought to a question of this key, which the server gave it. It is good once."""
        if key is None or self._given == b"{}":
            return None
        given = members(self._given)
        raw = given.pop(key, None)
        self._given = msgspec.json.encode(given)
        if raw is None:
            return None
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(answer_for_old(method, bytes(raw)))
        except Fault:
            return None  # The client is asked.
        return answer

    def follow(self, exchange: AnyExchange) -> None:
        """Speak of another request of the client's from now on: its id, its progress token, its level."""
        self.request, self.preview, self.dialect = exchange.request, exchange.preview, exchange.dialect

    def over(self, reason: str) -> None:
        """Nobody wants the answer any more."""
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel(reason)


class _ParkedCall(ParkedRequest):
    __slots__ = ("_open", "_whole")

    def __init__(
        self, exchange: Exchange, parking: CallParking, bind: Callable[[], bytes], whole: ParkedExchange
    ) -> None:
        super().__init__(exchange, parking, bind)
        self._whole: ParkedExchange | None = whole
        """None once it is over: the two would keep each other, and the client's request with them."""
        self._open: set[asyncio.Future[object]] = set()

    def ask(self, method: str, params: bytes, key: str | None) -> asyncio.Future[bytes]:
        own = None if key in self._questions else key
        question: asyncio.Future[bytes] = self.pose(method, params, partial(answer_for_old, method), own)  # type: ignore[assignment]
        self._open.add(question)  # type: ignore[arg-type]
        question.add_done_callback(self._open.discard)
        return question

    def speak_soon(self, turns: int = 0) -> None:
        """A server's questions of one moment come in several messages, a little apart."""
        asyncio.get_running_loop().call_later(SETTLE_SECONDS, self.speak)

    def done(self, outcome: bytes | Fault | ErrorObject) -> None:
        super().done(outcome)
        self._whole = None
        self._withdraw()

    def stop(self, reason: str) -> None:
        whole, self._whole = self._whole, None
        self._withdraw()
        if whole is not None:
            whole.over(reason)

    def attach(self, exchange: AnyExchange) -> None:
        super().attach(exchange)
        if self._whole is not None:
            self._whole.follow(exchange)

    def _withdraw(self) -> None:
        """The server withdrew its question."""
        for question in list(self._open):
            question.cancel()
