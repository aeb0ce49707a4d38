"""The hub with an observer: every request passes through untouched, and the observer hears how each one went."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import msgspec

from interlock.hub.calls.call import Caller
from interlock.hub.sessions.middleware import Middleware, ObservedExchange
from interlock.hub.sessions.session import Service, Session
from interlock.transports.exchange import SessionExchange


class ObservedCall(msgspec.Struct, frozen=True):
    """One request and what came of it."""

    method: str
    name: str
    """Which tool, prompt or resource."""
    params: str
    """As they came, in JSON."""
    outcome: str
    failed: bool
    took_ms: float


class ObservedService(Middleware[Caller]):
    """The hub with an observer, who hears how each request went."""

    def __init__(self, service: Service[Caller], tell: Callable[[ObservedCall], None]) -> None:
        super().__init__(service)
        self._tell = tell

    def serve(self, exchange: SessionExchange[Session, Caller]) -> None:
        self._service.serve(_ReportedExchange(exchange, self._tell))


class _ReportedExchange(ObservedExchange[Caller]):
    """Reports how a request went."""

    __slots__ = ("_begun", "_tell")

    def __init__(self, real: SessionExchange[Session, Caller], tell: Callable[[ObservedCall], None]) -> None:
        super().__init__(real)
        self._tell = tell
        self._begun = perf_counter()

    def on_result(self, result: bytes) -> None:
        decoded = msgspec.json.decode(result, type=_ResultBody)
        texts = [piece.text for piece in decoded.content or [] if piece.text]
        self._report(texts[0] if texts else "", failed=decoded.isError)

    def on_failure(self, name: str, message: str) -> None:
        self._report(f"{name}: {message}" if message else name, failed=True)

    def _report(self, outcome: str, *, failed: bool) -> None:
        took = (perf_counter() - self._begun) * 1000
        name = self.preview.name or self.preview.uri or ""
        params = self.request.params.decode(errors="replace")
        self._tell(ObservedCall(self.request.method, name, params, outcome, failed, round(took, 2)))


class _Piece(msgspec.Struct):
    text: str | None = None


class _ResultBody(msgspec.Struct):
    content: list[_Piece] | None = None
    isError: bool = False
