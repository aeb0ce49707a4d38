"""A `Link` to a `Service` in the same process.

Callbacks never run inside a call: every answer, notification and question comes in a later turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import is_modern, preview, read_initialize, read_modern
from interlock.transports.exchange import AdmittedCaller, OpenExchange, Service, TransportSession, check_can_ask
from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.transports.memory.exchange import MemoryExchange
from interlock.transports.sessions.session import ClientAnswer, SessionEnd
from interlock.transports.sessions.states import SessionEvent
from interlock.transports.sessions.stream_session import StreamSession
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault, internal_error
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import EMPTY_OBJECT, Failure, Id, Notification, Request, Result

log = logging.getLogger("interlock.transports")


class MemoryLink(Link):
    """One client of a service in the same process."""

    def __init__(
        self, service: Service, caller: AdmittedCaller, listener: Listener, *, limits: Limits = DEFAULT
    ) -> None:
        self.listener = listener
        self._service = service
        self._caller = caller
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._open: dict[Id, MemoryExchange] = {}
        """The client's requests that wait for an answer."""
        self._asked: dict[Id, asyncio.Future[bytes]] = {}
        """The service's requests that wait for an answer."""
        self._session: TransportSession | None = None
        self._last_id = 0
        self._last_asked = 0
        self._closed = False

    # The client's side.

    @property
    def pending(self) -> int:
        return len(self._open)

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if self._closed:
            raise Fault("UPSTREAM_UNAVAILABLE", "the link is closed")
        if len(self._open) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", f"{self._limits.pending} requests are waiting", retry_after_ms=1000)
        self._last_id += 1
        params = outgoing.with_token(self._last_id) if outgoing.wants_progress else outgoing.params
        request = Request(self._last_id, outgoing.method, params)
        self.later(self._serve, request)
        # Registered now, so that a cancellation in this turn finds it.
        self._open[request.id] = MemoryExchange(self, request, outgoing, sink, self._caller)
        return request.id

    def cancel(self, handle: Id, reason: str) -> None:
        exchange = self._open.pop(handle, None)
        if exchange is not None:
            exchange.cancel(reason)

    def extend(self, handle: Id, deadline: float) -> None:
        exchange = self._open.get(handle)
        if exchange is not None:
            exchange.extend(deadline)

    def hold(self, handle: Id, *, on: bool) -> None:
        exchange = self._open.get(handle)
        if exchange is not None:
            exchange.hold(on=on)

    def tell(self, method: str, params: bytes) -> None:
        if method == "notifications/initialized" and self._session is not None:
            self._session.confirm()
        self.later(self._service.on_notification, self._caller, self._session, Notification(method, params))

    def answer(self, id: Id, result: bytes) -> None:
        waiter = self._asked.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(result)

    def refuse(self, id: Id, error: ErrorObject) -> None:
        waiter = self._asked.pop(id, None)
        if waiter is not None and not waiter.done():
            message = f"the request to the client was refused: {error.message}"
            waiter.set_exception(Fault("UPSTREAM_ERROR", message, code=error.code))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        lost = Fault("OUTCOME_UNKNOWN", "the link was closed")
        for exchange in list(self._open.values()):
            exchange.cancel("the connection was closed")
            exchange.sink.on_lost(lost)
        self._open.clear()
        self._cancel_asked()
        if self._session is not None:
            self._service.end_session(self._session, SessionEvent.LEAVE, "the connection was closed")
        self.listener.on_closed(Fault("UPSTREAM_UNAVAILABLE", "the link was closed"))

    # The service's side (`exchange.ExchangeLink`, `stream_session.SessionStream`).

    def later(self, action: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon(action, *arguments)

    def find(self, id: Id) -> OpenExchange | None:
        return self._open.get(id)

    def notify(self, method: str, params: bytes) -> None:
        self.later(self.listener.on_notification, method, params)

    def ask_in_session(self, method: str, params: bytes) -> ClientAnswer:
        if self._session is None:
            raise Fault("UPSTREAM_UNAVAILABLE", "no session is open")
        return self.ask(self._session.dialect, method, params, self.listener.on_request)

    def ask(self, dialect: Dialect, method: str, params: bytes, take: Callable[[Request], None]) -> ClientAnswer:
        check_can_ask(dialect, method, params)
        self._last_asked += 1
        id_ = self._last_asked
        waiter = ClientAnswer(id_, self._loop)
        self._asked[id_] = waiter
        waiter.add_done_callback(lambda _: self._asked.pop(id_, None))
        self.later(take, Request(id_, method, params))
        return waiter

    def finish(self, exchange: MemoryExchange, answer: Result | Failure) -> None:
        if self._open.pop(exchange.request.id, None) is not None:
            self.later(exchange.sink.on_response, answer)

    def expire(self, exchange: MemoryExchange) -> None:
        if self._open.pop(exchange.request.id, None) is not None:
            exchange.cancel("the deadline has passed")
            exchange.sink.on_lost(Fault("UPSTREAM_TIMEOUT", f"no answer to {exchange.request.method} in time"))

    def end(self, end: SessionEnd) -> None:
        """The service ended the session: open requests are cancelled and answered, and the link is closed."""
        if self._closed:
            return
        for exchange in list(self._open.values()):
            exchange.abort(end)
        self._closed = True
        self._cancel_asked()
        self.later(self.listener.on_closed, Fault("UPSTREAM_UNAVAILABLE", f"the session has ended: {end.reason}"))

    def _cancel_asked(self) -> None:
        for waiter in self._asked.values():
            waiter.cancel()
        self._asked.clear()

    # Intake of a request.

    def _serve(self, request: Request) -> None:
        exchange = self._open.get(request.id)
        if exchange is None:
            return
        modern = False
        try:
            view = preview(request.params)
            modern = is_modern(request, view, None)
            if modern:
                exchange.admit(view, read_modern(request, view, None), None)
            elif request.method == "initialize":
                self._initialize(exchange)
                return
            elif request.method == "ping":
                self.finish(exchange, Result(request.id, EMPTY_OBJECT))
                return
            elif self._session is None:
                raise Fault("INVALID_REQUEST", "no session is open", hint="send initialize first")
            else:
                exchange.admit(view, self._session.dialect, self._session)
        except Fault as fault:
            error_dialect = ErrorDialect.NEW_MCP if modern else ErrorDialect.OLD_MCP
            self.finish(exchange, Failure(request.id, fault.render(error_dialect)))
            return
        try:
            self._service.serve(exchange)
        except Exception:
            log.exception("%s could not be served", request.method)
            exchange.fail(internal_error())

    def _initialize(self, exchange: MemoryExchange) -> None:
        if self._session is not None:
            raise Fault("INVALID_REQUEST", "the session is open already")
        request = exchange.request
        dialect = read_initialize(request.params)
        self._session, result = self._service.open_session(StreamSession(self, "memory"), self._caller, dialect)
        self.finish(exchange, Result(request.id, result))
