"""A service that reports every request and its outcome to an observer, and passes it on unchanged."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import msgspec

from interlock.hub.calls.call import Caller
from interlock.hub.sessions.middleware import Middleware, ObservedExchange
from interlock.hub.sessions.session import Service, Session
from interlock.transports.exchange import SessionExchange


class ObservedCall(msgspec.Struct, frozen=True):
    """One request and its outcome."""

    method: str
    name: str
    """The tool, prompt or resource."""
    params: str
    """The params as received, in JSON."""
    outcome: str
    failed: bool
    took_ms: float


class ObservedService(Middleware[Caller]):
    """The hub's service with an observer."""

    def __init__(self, service: Service[Caller], tell: Callable[[ObservedCall], None]) -> None:
        super().__init__(service)
        self._tell = tell

    def serve(self, exchange: SessionExchange[Session, Caller]) -> None:
        self._service.serve(_ReportedExchange(exchange, self._tell))


class _ReportedExchange(ObservedExchange[Caller]):
    """An exchange that reports its outcome."""

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
