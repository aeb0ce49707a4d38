"""A `Link` to a `Service` in the same process, without sockets. Payloads are the same bytes as on a socket.

Callbacks never run inside a call: every answer, notification and question comes in a later turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview, is_modern, preview, read_initialize, read_modern
from interlock.transports.drain import Drain
from interlock.transports.exchange import AdmittedCaller, OpenExchange, Service, TransportSession, check_capability
from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.transports.sessions.session import ClientAnswer, SessionChannel, SessionEnd
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.conversation import NAMES_REQUEST, PROGRESS
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault, internal_error
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import Failure, Id, Notification, Request, Result

log = logging.getLogger("interlock.transports")


def connect(
    service: Service, caller: AdmittedCaller, listener: Listener | None = None, *, limits: Limits = DEFAULT
) -> Link:
    """A link to a service in this process."""
    return MemoryLink(service, caller, limits, listener)


class MemoryLink(Link):
    """One client of a service in the same process."""

    def __init__(
        self, service: Service, caller: AdmittedCaller, limits: Limits, listener: Listener | None = None
    ) -> None:
        if listener is not None:
            self.listener = listener
        self._service = service
        self._caller = caller
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._open: dict[Id, _MemoryExchange] = {}
        self._open_requests: dict[Id, asyncio.Future[bytes]] = {}
        self._session: TransportSession | None = None
        self._last = 0
        self._asks = 0
        self._closed = False

    @property
    def pending(self) -> int:
        return len(self._open)

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if self._closed:
            raise Fault("UPSTREAM_UNAVAILABLE", "the link is closed")
        if len(self._open) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", f"{self._limits.pending} requests are waiting", retry_after_ms=1000)
        self._last += 1
        params = outgoing.with_token(self._last) if outgoing.wants_progress else outgoing.params
        request = Request(self._last, outgoing.method, params)
        self.later(self._serve, request)
        # Registered now, so that a cancellation in this turn finds it.
        self._open[request.id] = _MemoryExchange(self, request, outgoing, sink, self._caller)
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
        waiter = self._open_requests.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(result)

    def refuse(self, id: Id, error: ErrorObject) -> None:
        waiter = self._open_requests.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_exception(
                Fault("UPSTREAM_ERROR", f"the request to the client was refused: {error.message}", code=error.code)
            )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        gone = Fault("OUTCOME_UNKNOWN", "the link was closed")
        for exchange in list(self._open.values()):
            exchange.cancel("the connection was closed")
            exchange.sink.on_lost(gone)
        self._open.clear()
        for waiter in self._open_requests.values():
            waiter.cancel()
        self._open_requests.clear()
        if self._session is not None:
            self._service.end_session(self._session, SessionEvent.LEAVE, "the connection was closed")
        if hasattr(self, "listener"):
            self.listener.on_closed(Fault("UPSTREAM_UNAVAILABLE", "the link was closed"))

    # The service's side.

    def end(self, end: SessionEnd) -> None:
        """The service ended the session: open requests are cancelled and answered, and the link is closed."""
        if self._closed:
            return
        for exchange in list(self._open.values()):
            exchange.abort(end)
        self._closed = True
        for waiter in self._open_requests.values():
            waiter.cancel()
        self._open_requests.clear()
        if hasattr(self, "listener"):
            self.later(self.listener.on_closed, Fault("UPSTREAM_UNAVAILABLE", f"the session has ended: {end.reason}"))

    def ask_in_session(self, method: str, params: bytes) -> ClientAnswer:
        """A request of the service that belongs to no request of the client."""
        if self._session is None:
            raise Fault("UPSTREAM_UNAVAILABLE", "no session is open")
        return self.ask(self._session.dialect, method, params, self.listener.on_request)

    def find(self, id: Id) -> OpenExchange | None:
        """An open request by its id."""
        return self._open.get(id)

    def later(self, action: Callable[..., object], *arguments: object) -> None:
        """Do something in the next turn of the loop."""
        self._loop.call_soon(action, *arguments)

    def ask(self, dialect: Dialect, method: str, params: bytes, hear: Callable[[Request], None]) -> ClientAnswer:
        """A request of the service for the listener."""
        if dialect.modern:
            raise Fault("INTERNAL_ERROR", "servers do not send requests in the stateless era")
        check_capability(dialect, method, params)
        self._asks += 1
        number = self._asks
        waiter = ClientAnswer(number, self._loop)
        self._open_requests[number] = waiter
        waiter.add_done_callback(lambda _: self._open_requests.pop(number, None))
        self.later(hear, Request(number, method, params))
        return waiter

    def finish(self, exchange: _MemoryExchange, answer: Result | Failure) -> None:
        """The one answer to a request."""
        if self._open.pop(exchange.request.id, None) is not None:
            self.later(exchange.sink.on_response, answer)

    def expire(self, exchange: _MemoryExchange) -> None:
        """The deadline has passed."""
        if self._open.pop(exchange.request.id, None) is not None:
            exchange.cancel("the deadline has passed")
            exchange.sink.on_lost(Fault("UPSTREAM_TIMEOUT", f"no answer to {exchange.request.method} in time"))

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
                self._initialize(request)
                return
            elif request.method == "ping":
                self.finish(exchange, Result(request.id, b"{}"))
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

    def _initialize(self, request: Request) -> None:
        if self._session is not None:
            raise Fault("INVALID_REQUEST", "the session is open already")
        channel = _MemorySession(self)
        self._session, result = self._service.open_session(channel, self._caller, read_initialize(request.params))
        self.finish(self._open[request.id], Result(request.id, result))


class _MemorySession(SessionChannel):
    __slots__ = ("_link",)

    transport = "memory"

    def __init__(self, link: MemoryLink) -> None:
        super().__init__(time.monotonic())
        self._link = link

    @property
    def open_calls(self) -> int:
        return self._link.pending

    @property
    def open_streams(self) -> int:
        return 1

    def notify(self, method: str, params: bytes) -> None:
        self._link.later(self._link.listener.on_notification, method, params)

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        return self._link.ask_in_session(method, params)

    def close(self, end: SessionEnd) -> None:
        self._link.end(end)


_NOTHING = RequestPreview()


class _MemoryExchange(OpenExchange):
    __slots__ = (
        "_accepts",
        "_asks",
        "_deadline",
        "_drain",
        "_extension",
        "_latest",
        "_least",
        "_link",
        "_open",
        "_paused",
        "sink",
    )

    dialect: Dialect

    def __init__(
        self, link: MemoryLink, request: Request, outgoing: Outgoing, sink: Sink, caller: AdmittedCaller
    ) -> None:
        # Dialect and session are only known once the request has been looked at, in `admit`.
        super().__init__(request, _NOTHING, None, caller, None, None)  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        self.sink = sink
        self._link = link
        self._asks: list[asyncio.Future[bytes]] = []
        self._accepts = outgoing.accepts
        self._drain = Drain()
        self._paused = False
        self._open = True
        self._extension = outgoing.deadline - loop.time()
        self._least = 0.0
        self._latest = outgoing.deadline if outgoing.max_deadline is None else outgoing.max_deadline
        self._deadline = loop.call_at(outgoing.deadline, link.expire, self)

    def admit(self, view: RequestPreview, dialect: Dialect, session: TransportSession | None) -> None:
        """Set what is known once the request was read."""
        self.preview, self.dialect, self.session = view, dialect, session

    @property
    def open(self) -> bool:
        return self._open

    def result(self, result: bytes) -> None:
        self._end(Result(self.request.id, result))

    def fail(self, fault: Fault) -> None:
        self._end(Failure(self.request.id, fault.render(self.dialect.error_dialect)))

    def pass_failure(self, error: ErrorObject) -> None:
        self._end(Failure(self.request.id, error))

    def notify(self, method: str, params: bytes) -> None:
        if not self._open:
            return
        if method == PROGRESS or method in self._accepts:
            self._extend()
        elif method in NAMES_REQUEST:
            return
        self._link.later(self.sink.on_notification, method, params)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        waiter = self._link.ask(self.dialect, method, params, self.sink.on_request)
        self._asks.append(waiter)
        return waiter

    def drained(self) -> asyncio.Future[None] | None:
        return self._drain.wait() if self._paused and self._open else None

    @property
    def conversation(self) -> object:
        return self._link

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._link.find(id)

    def hold(self, *, on: bool) -> None:
        """The sink takes no more notifications for now, or takes them again."""
        self._paused = on
        if not on:
            self._drain.release()

    def extend(self, deadline: float) -> None:
        """Wait until then."""
        self._deadline.cancel()
        self._least = deadline
        self._deadline = asyncio.get_running_loop().call_at(deadline, self._link.expire, self)

    def _end_without_answer(self) -> None:
        self._close()

    def _end(self, answer: Result | Failure) -> None:
        if self._close():
            self._link.finish(self, answer)

    def _close(self) -> bool:
        was_open, self._open = self._open, False
        self._drain.release()
        self.on_cancel = None
        self._deadline.cancel()
        for waiter in self._asks:
            waiter.cancel()
        self._asks.clear()
        return was_open

    def _extend(self) -> None:
        """Move the deadline after progress, up to the last deadline."""
        loop = asyncio.get_running_loop()
        self._deadline.cancel()
        deadline = max(self._least, min(loop.time() + self._extension, self._latest))
        self._deadline = loop.call_at(deadline, self._link.expire, self)
