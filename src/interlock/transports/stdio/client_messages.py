"""Reads the messages of one client on a stream, in both eras, and has each request answered.

Every request gets exactly one answer, also an invalid one. The stream only carries bytes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import is_modern, preview, read_initialize, read_modern, refusal_dialect
from interlock.protocols.mcp.meta import names_method
from interlock.transports.exchange import (
    AdmittedCaller,
    OpenExchange,
    Service,
    TransportSession,
    check_can_ask,
    why_cancelled,
)
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.sessions.session import ClientAnswer, SessionEnd
from interlock.transports.sessions.states import SessionEvent
from interlock.transports.sessions.stream_session import StreamSession
from interlock.transports.stdio.exchange import StreamBatch, StreamExchange, Waiter
from interlock.wire.conversation import (
    Answered,
    Notified,
    Received,
    RefusedMessage,
    RequestReceived,
    RpcConversation,
    Withdrawn,
)
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.ids import first_number
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import Limits
from interlock.wire.messages import (
    BadMessage,
    Failure,
    Id,
    Message,
    Notification,
    Request,
    Result,
    decode_batch,
    encode_failure,
    encode_notification,
    encode_request,
    encode_result,
    is_batch,
    one_line,
)
from interlock.wire.names import may_spell

_NO_BATCHES: Final = "batches are part of revision 2025-03-26 only"


class Stream(Protocol):
    """Carries messages to the client."""

    draining: bool
    """Whether the client sends no more, and the stream closes with the last answer."""

    def send(self, message: bytes) -> None:
        """Send a message."""

    def offer(self, message: bytes) -> None:
        """Send a message, unless the client is not keeping up."""

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""

    def all_answered(self) -> None:
        """No request is open any more."""

    def close(self) -> None:
        """Send what waits, and close the stream."""


class _ClosedStream:
    """Drops everything: the conversation is over."""

    draining = False

    def send(self, message: bytes) -> None:
        pass

    def offer(self, message: bytes) -> None:
        pass

    def drained(self) -> asyncio.Future[None] | None:
        return None

    def all_answered(self) -> None:
        pass

    def close(self) -> None:
        pass


class ClientMessages:
    """The conversation with one client."""

    def __init__(
        self,
        stream: Stream,
        service: Service,
        caller: AdmittedCaller,
        limits: Limits,
        admit: Callable[[bytes], AdmittedCaller] | None,
        transport: str,
        open_bytes: RequestBytes,
        sender: str,
    ) -> None:
        """`open_bytes` counts the requests, for `sender` or, if that is empty, for the caller of each."""
        self._open_bytes = open_bytes
        self._sender = sender
        self._transport = transport
        self._stream = stream
        self._service = service
        self._caller = caller
        self._limits = limits
        self._admit = admit
        self._conversation: RpcConversation[Waiter, OpenExchange] = RpcConversation(limits, first_number())
        self.owed = self._conversation.owed
        """The requests that have no answer yet."""
        self.channel: StreamSession | None = None
        """The channel of the session, once it is open."""
        self._session: TransportSession | None = None

    @property
    def pending(self) -> int:
        """How many requests of the client have no answer yet."""
        return len(self.owed)

    def serve(self, request: Request, batch: StreamBatch | None = None) -> None:
        """Have a request answered."""
        modern = False
        try:
            view = preview(request.params)
            meta, session = view.meta, self._session
            modern = (meta is not None and meta.protocol_version is not None) or is_modern(request, view, None)
            caller = self._caller if session is None else session.caller
            if request.auth and self._admit is not None:
                caller = self._admit(request.auth)
            if modern:
                dialect, session = read_modern(request, view, None), None
            elif request.method == "initialize":
                self._initialize(request, caller, batch)
                return
            elif request.method == "ping":
                self.answer(request.id, encode_result(request.id, b"{}"), batch)
                return
            elif session is None:
                hint = "send initialize first, or the request metadata of revision 2026-07-28"
                raise Fault("INVALID_REQUEST", "no session is open", hint=hint)
            elif caller.principal_name != session.caller.principal_name:
                hint = "send the credential that opened it"
                raise Fault("ACCESS_DENIED", "the session belongs to another caller", hint=hint)
            else:
                dialect = session.dialect
        except Fault as fault:
            error_dialect = ErrorDialect.NEW_MCP if modern else ErrorDialect.OLD_MCP
            if modern and fault.kind.domain == "security":
                error_dialect = refusal_dialect(request.params)
            self.answer(request.id, encode_failure(request.id, fault.render(error_dialect)), batch)
            return
        exchange = StreamExchange(self, request, view, dialect, caller, session, batch)
        self.owed[request.id] = exchange
        exchange.serve(self._service)
        if exchange.caller is not caller:
            self._replace_caller(caller, exchange.caller)

    def take(self, line: bytes) -> None:
        """Take any message that is not large."""
        if is_batch(line):
            try:
                self._check_batches()
                self._take_batch(decode_batch(line, self._limits))
            except Fault as bad:
                self.refuse(bad.id if isinstance(bad, BadMessage) else None, bad)
            return
        received = self._conversation.receive(line)
        # A notification gets no answer, not even to its faults (2026-07-28, Notifications).
        if not (isinstance(received, RefusedMessage) and not may_spell(line, b'"id"') and names_method(line)):
            self._received(received, None)

    def take_large(self, outcome: Outcome) -> None:
        """Take a large message that was read beside the loop."""
        if isinstance(outcome, list):
            try:
                self._check_batches()
            except Fault as fault:
                self.refuse(None, fault)
            else:
                self._take_batch(outcome)
        elif not isinstance(outcome, BadMessage):
            self._received(self._conversation.take(outcome), None)
        elif outcome.id is not None or not outcome.asks:
            # A notification gets no answer, not even to its faults (2026-07-28, Notifications).
            self.refuse(outcome.id, outcome)

    def refuse(self, id: Id | None, fault: Fault, batch: StreamBatch | None = None) -> None:
        """Refuse a message that cannot be read. It counts like a request that can."""
        try:
            self._service.count_malformed(self._caller if self._session is None else self._session.caller)
        except Fault as refused:
            fault = refused
        message = encode_failure(id, fault.render(self._error_dialect))
        if batch is not None:
            batch.answered(message)
        else:
            self._stream.send(message)

    def close(self) -> None:
        """The stream is over: cancel the work under way."""
        exchanges = [exchange for exchange in self.owed.values() if exchange is not None]
        for waiter in self._conversation.abandon():
            waiter.cancel()
        for exchange in exchanges:
            exchange.cancel("the connection was closed")
        # Break the reference cycles with the stream and the session, so that this object is freed now.
        self._stream, self.channel = _ClosedStream(), None
        session, self._session = self._session, None
        if session is not None:
            self._service.end_session(session, SessionEvent.LEAVE, "the connection was closed")

    @property
    def greeted(self) -> bool:
        """Whether a session was opened."""
        return self._session is not None

    # Exchanges, sessions and batches call these (`exchange.StreamClient`).

    def answer(self, id: Id, message: bytes, batch: StreamBatch | None = None) -> None:
        owed = self.owed
        wanted = id in owed
        if wanted:
            del owed[id]
        if batch is not None:
            batch.answered(message if wanted else None)
        elif wanted:
            self._stream.send(message)
        if self._stream.draining and not owed:
            self._stream.all_answered()

    def notify(self, method: str, params: bytes) -> None:
        self._stream.offer(encode_notification(method, one_line(params)))

    def drained(self) -> asyncio.Future[None] | None:
        return self._stream.drained()

    def ask(self, dialect: Dialect, method: str, params: bytes) -> ClientAnswer:
        check_can_ask(dialect, method, params)
        id_ = self._conversation.reserve()
        message = encode_request(id_, method, one_line(params))
        waiter = ClientAnswer(id_)
        waiter.add_done_callback(lambda done: self._withdraw(id_, done) if done.cancelled() else None)
        self._conversation.waiting[id_] = waiter, math.inf
        self._stream.send(message)
        return waiter

    def ask_in_session(self, method: str, params: bytes) -> ClientAnswer:
        if self._session is None:
            raise Fault("UPSTREAM_UNAVAILABLE", "no session is open")
        return self.ask(self._session.dialect, method, params)

    def end(self, end: SessionEnd) -> None:
        for exchange in list(self.owed.values()):
            if exchange is not None:
                exchange.abort(end)
        self._stream.close()

    def send(self, message: bytes) -> None:
        self._stream.send(message)

    def hold(self, exchange: StreamExchange) -> bool:
        sender = self._sender or f"caller {exchange.caller.principal_name}"
        return self._open_bytes.hold(exchange, sender, len(exchange.request.params))

    def release(self, exchange: StreamExchange) -> None:
        self._open_bytes.release(exchange)

    def _withdraw(self, id: int, waiter: Waiter) -> None:
        cancelled = self._conversation.withdraw(id, why_cancelled(waiter))
        if cancelled is not None:
            self._stream.send(cancelled)

    def _received(self, received: Received[Waiter, OpenExchange], batch: StreamBatch | None) -> None:
        match received:
            case RequestReceived(request):
                self.serve(request, batch)
            case Answered(waiter, answer):
                if not waiter.done():
                    _settle(waiter, answer)
            case Notified(notification):
                self._on_notification(notification)
            case Withdrawn(_, reason, exchange):
                if exchange is not None:
                    exchange.cancel(reason)
            case RefusedMessage(bad):
                self.refuse(bad.id, bad, batch)
            case _:
                pass

    def _check_batches(self) -> None:
        if self._session is None or not self._session.dialect.revision.batches:
            raise Fault("INVALID_REQUEST", _NO_BATCHES)

    def _take_batch(self, messages: list[Message | BadMessage]) -> None:
        batch = StreamBatch(self)
        for message in messages:
            batch.expect()
            if isinstance(message, BadMessage):
                batch.answered(encode_failure(message.id, message.render(self._error_dialect)))
                continue
            received = self._conversation.take(message)
            self._received(received, batch)
            if not isinstance(received, RequestReceived | RefusedMessage):
                batch.answered(None)

    def _initialize(self, request: Request, caller: AdmittedCaller, batch: StreamBatch | None) -> None:
        if batch is not None:
            raise Fault("INVALID_REQUEST", "initialize must not be part of a batch")
        if self._session is not None:
            raise Fault("INVALID_REQUEST", "the session is open already", hint="use it, or open another connection")
        channel = StreamSession(self, self._transport)
        self._session, result = self._service.open_session(channel, caller, read_initialize(request.params))
        self.channel = channel
        self.answer(request.id, encode_result(request.id, one_line(result)))

    def _on_notification(self, notification: Notification) -> None:
        session = self._session
        if notification.method == "notifications/initialized" and session is not None:
            session.confirm()
        self._service.on_notification(self._caller if session is None else session.caller, session, notification)

    def _replace_caller(self, before: AdmittedCaller, caller: AdmittedCaller) -> None:
        """Use the caller that the service has found for this stream from now on."""
        if self._session is not None:
            if self._session.caller is before:
                self._session.use_caller(caller)
        elif self._caller is before:
            self._caller = caller

    @property
    def _error_dialect(self) -> ErrorDialect:
        return ErrorDialect.NEW_MCP if self._session is None else ErrorDialect.OLD_MCP


def _settle(waiter: Waiter, answer: Result | Failure) -> None:
    if isinstance(answer, Failure):
        error = answer.error
        waiter.set_exception(
            Fault("UPSTREAM_ERROR", f"the request to the client was refused: {error.message}", code=error.code)
        )
    else:
        waiter.set_result(answer.result)
