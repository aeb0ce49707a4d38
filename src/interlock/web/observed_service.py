"""A service that somebody watches: every request passes through untouched, and its outcome is told when it is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter

import msgspec

from interlock.hub.sessions.session import Exchange, Service, Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.transports.exchange import Caller, OpenExchange
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Id, Notification, Request


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


class ObservedService:
    """Stands before another service."""

    def __init__(self, service: Service, tell: Callable[[ObservedCall], None]) -> None:
        self._service = service
        self._tell = tell
        self.admit: Callable[[str, Mapping[bytes, bytes]], Caller] = service.admit

    def open_session(self, channel: SessionChannel, caller: Caller, dialect: Dialect) -> tuple[Session, bytes]:
        """Open a session."""
        return self._service.open_session(channel, caller, dialect)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, and tell how it went."""
        self._service.serve(_ObservedExchange(exchange, self._tell))

    def on_notification(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        """Take a notification."""
        self._service.on_notification(caller, session, notification)

    def check_rate(self, caller: Caller) -> None:
        """Whether the caller's rate is used up."""
        self._service.check_rate(caller)

    def count_malformed(self, caller: Caller) -> None:
        """A request could not be read."""
        self._service.count_malformed(caller)

    def resume_session(self, channel: SessionChannel, id: str, caller: Caller) -> Session | None:
        """Go on with a session of an earlier run."""
        return self._service.resume_session(channel, id, caller)

    def end_session(self, session: Session, event: SessionEvent, reason: str) -> None:
        """End a session."""
        self._service.end_session(session, event, reason)


class _ObservedExchange(Exchange):
    """The exchange that the service sees; what it answers goes to the real one."""

    __slots__ = ("_begun", "_real", "_tell")

    def __init__(self, real: Exchange, tell: Callable[[ObservedCall], None]) -> None:
        super().__init__(real.request, real.preview, real.dialect, real.caller, real.session, real.headers)
        self._real = real
        self._tell = tell
        self._begun = perf_counter()
        real.on_cancel = self._cancelled

    @property
    def open(self) -> bool:
        return self._real.open

    def result(self, result: bytes) -> None:
        self._real.result(result)
        said = msgspec.json.decode(result, type=_Said)
        texts = [piece.text for piece in said.content or [] if piece.text]
        self._over(texts[0] if texts else "", failed=said.isError)

    def fail(self, fault: Fault) -> None:
        self._real.fail(fault)
        self._over(f"{fault.name}: {fault.message}", failed=True)

    def pass_failure(self, error: ErrorObject) -> None:
        self._real.pass_failure(error)
        self._over(f"{error.code}: {error.message}", failed=True)

    def notify(self, method: str, params: bytes) -> None:
        self._real.notify(method, params)

    def drained(self) -> asyncio.Future[None] | None:
        return self._real.drained()

    @property
    def conversation(self) -> object | None:
        return self._real.conversation

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._real.sibling(id)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        return self._real.ask(method, params)

    def _cancelled(self, reason: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(reason)
        self._over("cancelled", failed=True)

    def _over(self, outcome: str, *, failed: bool) -> None:
        took = (perf_counter() - self._begun) * 1000
        request: Request = self.request
        name = self.preview.name or self.preview.uri or ""
        params = request.params.decode(errors="replace")
        self._tell(ObservedCall(request.method, name, params, outcome, failed, round(took, 2)))


class _Piece(msgspec.Struct):
    text: str | None = None


class _Said(msgspec.Struct):
    content: list[_Piece] | None = None
    isError: bool = False
