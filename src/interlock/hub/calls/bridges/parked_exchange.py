"""A call of a stateless client at a server of the handshake era: when the server asks, the call is parked, and it
continues with the client's retry.

For the forwarder it is one exchange from beginning to end, whichever request of the client it answers in the end.
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
"""How long to wait for further questions, so that a client gets them together."""


class ParkedExchange(Exchange):
    """One call, over all requests that the client makes for it."""

    __slots__ = ("_given", "_parked_call")

    def __init__(
        self, exchange: Exchange, parking: CallParking, bind: Callable[[], bytes], given: bytes = b"{}"
    ) -> None:
        super().__init__(
            exchange.request, exchange.preview, exchange.dialect, exchange.caller, exchange.session, exchange.headers
        )
        self._parked_call = _ParkedCall(exchange, parking, bind, self)
        self._given = given
        """Answers that came with the request, before any question."""

    @property
    def open(self) -> bool:
        return not self._parked_call.finished and not self._parked_call.cancelled

    @property
    def attended(self) -> bool:
        """Whether a request of the client is open, rather than a question to the client."""
        return self._parked_call.attended

    def result(self, result: bytes) -> None:
        self._parked_call.done(result)

    def fail(self, fault: Fault) -> None:
        self._parked_call.done(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self._parked_call.done(error)

    def notify(self, method: str, params: bytes) -> None:
        # While the client answers a question no request is open, so the notification is dropped.
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
        """The answer that came with the request for a question with this key. It is used once."""
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
        """Use another request of the client from now on: its id, its progress token, its log level."""
        self.request, self.preview, self.dialect = exchange.request, exchange.preview, exchange.dialect

    def over(self, reason: str) -> None:
        """Cancel the call."""
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
        """None once it is over, to break the reference cycle, which would keep the client's request."""
        self._open: set[asyncio.Future[object]] = set()

    def ask(self, method: str, params: bytes, key: str | None) -> asyncio.Future[bytes]:
        own = None if key in self._questions else key
        question: asyncio.Future[bytes] = self.pose(method, params, partial(answer_for_old, method), own)  # type: ignore[assignment]
        self._open.add(question)  # type: ignore[arg-type]
        question.add_done_callback(self._open.discard)
        return question

    def speak_soon(self, turns: int = 0) -> None:
        """Wait a little first: questions of one moment arrive in several messages."""
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
