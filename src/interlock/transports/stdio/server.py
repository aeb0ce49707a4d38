"""The server half over a pair of byte streams: standard input and output, or one socket. Both eras on one stream.

Every line that asks for something gets exactly one answer, however bad the line was, and the stream lives on.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from itertools import chain
from time import thread_time
from typing import Final, cast

from interlock.protocols.mcp.capabilities import missing_capability
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import is_modern, preview, read_initialize, read_modern, refusal_dialect
from interlock.protocols.mcp.meta import names_method
from interlock.transports.batching import Batching
from interlock.transports.exchange import Caller, OpenExchange, Service, why_cancelled
from interlock.transports.large_reading import LargeReading
from interlock.transports.stdio.exchange import Batch, StreamExchange, StreamSession, Waiter
from interlock.wire.conversation import Answered, Asked, Conversation, Notified, Received, Refused, Withdrawn
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import DEFAULT, Limits
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
    encode_result,
    is_batch,
    one_line,
    plain_request,
)
from interlock.wire.names import may_spell
from interlock.wire.ndjson import LineReader, Oversize

log = logging.getLogger("interlock.transports")

HELD_BYTES: Final = 1024 * 1024
"""While the client does not read: how much is kept for it before notifications are dropped. Answers never are."""

TURN_S: Final = 0.001
"""What a client's lines may take of the loop's time at once."""

LAST_WORDS_S: Final = 2.0
"""How long requests under way may still take when the client has closed its end."""


class StdioServer(asyncio.Protocol):
    """One client on one stream. As a protocol it reads; `writer` is the same transport, or another one."""

    def __init__(
        self,
        service: Service,
        caller: Caller,
        *,
        limits: Limits = DEFAULT,
        admit: Callable[[bytes], Caller] | None = None,
    ) -> None:
        """With `admit`, a request may bring a credential of its own beside its method."""
        self._service = service
        self._caller = caller
        self._admit = admit
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._lines = LineReader(limits.message_bytes)
        self._talk: Conversation[Waiter] = Conversation(limits)
        self._open: dict[Id, OpenExchange] = {}
        self._rounds = Batching.of(self._loop)
        self._session: StreamSession | None = None
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._out: list[bytes] = []
        self._held = 0
        self._full = False
        self._flushing = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._last_words: asyncio.TimerHandle | None = None
        self._two_pipes = False
        self._later: Iterator[bytes | Oversize] | None = None
        """Lines that wait: for a large one before them to be read, or for the next turn of the loop."""
        self._reading = False
        """Whether a large one is being read."""
        self._ending = False
        """Whether the client sends no more, and lines of it wait."""

    # The reading transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By what it can do, not by its class: other loops have transports of their own.
        self._reader = cast("asyncio.ReadTransport", transport)
        if self._writer is None:
            self._writer = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._rounds.received(self, data)

    # The rounds call these (`rounds.Receiver`).

    def take_in(self, data: bytes) -> None:
        if not self._closed.done():
            self._take_lines(self._lines.each(data))

    def give_up(self) -> None:
        self.close()

    def eof_received(self) -> bool:
        """No more requests will come. What is under way gets a moment to be answered, then it is over."""
        self._rounds.settle()
        if self._later is not None:
            self._ending = True
            self._last_words = self._loop.call_later(LAST_WORDS_S, self.close)
            return True
        return self._end()

    def _end(self) -> bool:
        if not self._open:
            self.close()
            return False
        if self._last_words is None:
            self._last_words = self._loop.call_later(LAST_WORDS_S, self.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._rounds.settle()
        # A pipe that was read to its end is lost at once; answers go out on another one.
        if exc is not None or self._last_words is None or not self._two_pipes:
            self.close()

    # The writing transport calls these; on a socket it is the same one.

    def pause_writing(self) -> None:
        self._full = True
        if self._reader is not None and not self._reader.is_closing():
            self._reader.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        self._flush()
        if self._later is not None:
            self._go_on()
        elif not self._full and self._reader is not None and not self._reader.is_closing():
            self._reader.resume_reading()

    def write_to(self, writer: asyncio.WriteTransport) -> None:
        """Answer on another transport than the one that is read."""
        self._writer = writer
        self._two_pipes = True

    def close(self) -> None:
        """End the conversation: work under way is cancelled, nothing more is sent."""
        if self._closed.done():
            return
        self._flush()
        self._closed.set_result(None)
        if self._last_words is not None:
            self._last_words.cancel()
        for waiter in self._talk.abandon():
            waiter.cancel()
        for exchange in list(self._open.values()):
            exchange.cancel("the connection was closed")
        self._open.clear()
        if self._session is not None:
            self._service.on_session_closed(self._session)
        for transport in (self._writer, self._reader):
            if transport is not None:
                transport.close()

    @property
    def busy(self) -> bool:
        """Whether requests are under way."""
        return bool(self._open)

    def on_closed(self, told: Callable[[], None]) -> None:
        """Call this when the conversation is over."""
        self._closed.add_done_callback(lambda _: told())

    async def wait_closed(self) -> None:
        """Until the other side has gone, or `close`."""
        await asyncio.shield(self._closed)

    # What came in.

    def take_whole(self, message: bytes) -> None:
        """Take a message that came by itself, however it is written."""
        self._take_lines(iter((message,)))

    def _take_lines(self, lines: Iterator[bytes | Oversize]) -> None:
        """Take lines, after those that wait already. What is answered at once leaves in one write, without another
        turn of the loop."""
        if self._later is not None:
            self._later = chain(self._later, lines)
            return
        self._flushing = True
        try:
            self._go_through(lines)
        finally:
            self._flushing = False
            if not self._full:
                self._flush()

    def _go_through(self, lines: Iterator[bytes | Oversize]) -> None:
        """One line after the other, until one is large, or the client has had its share of this turn of the loop."""
        ends = thread_time() + TURN_S
        for line in lines:
            if isinstance(line, Oversize):
                reason = f"a line is over the limit of {self._limits.message_bytes} bytes"
                id_ = None if line.id in self._open else line.id
                self._refuse(id_, Fault("TOO_LARGE", reason, hint="send less in one message"))
            elif not line:
                pass
            elif len(line) > LARGE:
                self._pause(lines)
                self._reading = True
                LargeReading.here().read(line, self._limits, self._limits.members, self._read_large)
                return
            elif is_batch(line):
                self._batch(line)
            else:
                self._line(line)
            if self._closed.done():
                return
            if self._full or thread_time() > ends:
                self._pause(lines)
                if not self._full:
                    self._loop.call_soon(self._go_on)
                return

    def _pause(self, lines: Iterator[bytes | Oversize]) -> None:
        self._later = lines
        if self._reader is not None and not self._reader.is_closing():
            self._reader.pause_reading()

    def _go_on(self) -> None:
        """Take what waited."""
        if self._reading or self._full:
            return
        lines, self._later = self._later, None
        if lines is None or self._closed.done():
            return
        self._take_lines(lines)
        if self._later is not None:
            return
        if self._ending:
            self._end()
        elif self._reader is not None and not self._reader.is_closing():
            self._reader.resume_reading()

    def _read_large(self, outcome: Outcome) -> None:
        """A large message, as it was read."""
        self._reading = False
        if self._closed.done():
            return
        if isinstance(outcome, list):
            self._take_batch(outcome)
        elif isinstance(outcome, BadMessage):
            # What is wrong with a notification is nobody's to answer (2026-07-28, Notifications).
            if outcome.id is not None or not outcome.asks:
                self._refuse(outcome.id, outcome)
        else:
            self._received(self._talk.take(outcome), None)
        self._go_on()

    def _line(self, line: bytes) -> None:
        request = plain_request(line)
        if request is not None and len(line) <= self._limits.message_bytes and self._talk.owe(request.id):
            self._asked(request, None)
            return
        received = self._talk.receive(line)
        # What is wrong with a notification is nobody's to answer (2026-07-28, Notifications).
        if not (isinstance(received, Refused) and not may_spell(line, b'"id"') and names_method(line)):
            self._received(received, None)

    def _batch(self, line: bytes) -> None:
        if self._session is None or not self._session.dialect.revision.batches:
            self._refuse(None, Fault("INVALID_REQUEST", "batches are part of revision 2025-03-26 only"))
            return
        try:
            self._take_batch(decode_batch(line, self._limits))
        except BadMessage as bad:
            self._refuse(bad.id, bad)

    def _take_batch(self, messages: list[Message | BadMessage]) -> None:
        if self._session is None or not self._session.dialect.revision.batches:
            self._refuse(None, Fault("INVALID_REQUEST", "batches are part of revision 2025-03-26 only"))
            return
        batch = Batch(self)
        for message in messages:
            batch.expect()
            if isinstance(message, BadMessage):
                batch.answered(encode_failure(message.id, message.render(self._error_dialect)))
            else:
                received = self._talk.take(message)
                self._received(received, batch)
                if not isinstance(received, Asked | Refused):
                    batch.answered(None)

    def _received(self, received: Received[Waiter], batch: Batch | None) -> None:
        match received:
            case Asked(request):
                self._asked(request, batch)
            case Answered(waiter, answer):
                if not waiter.done():
                    _settle(waiter, answer)
            case Notified(notification):
                self._told(notification)
            case Withdrawn(id, reason):
                exchange = self._open.pop(id, None)
                if exchange is not None:
                    exchange.cancel(reason)
            case Refused(bad):
                self._refuse(bad.id, bad, batch)
            case _:
                pass

    def _asked(self, request: Request, batch: Batch | None) -> None:
        modern = False
        try:
            view = preview(request.params)
            modern = is_modern(request, view, None)
            caller = self._whose(request)
            if modern:
                dialect = read_modern(request, view, None)
                session = None
            elif request.method == "initialize":
                self._initialize(request, caller, batch)
                return
            elif request.method == "ping":
                self.answer(request.id, encode_result(request.id, b"{}"), batch)
                return
            else:
                session = self._session
                if session is None:
                    raise Fault(
                        "INVALID_REQUEST",
                        "no session is open",
                        hint="send initialize first, or the request metadata of revision 2026-07-28",
                    )
                dialect = session.dialect
                if caller.owner != session.caller.owner:
                    raise Fault("ACCESS_DENIED", "the session is another's", hint="bring the credential that opened it")
        except Fault as fault:
            error_dialect = ErrorDialect.OLD_MCP
            if modern:
                error_dialect = (
                    refusal_dialect(request.params) if fault.kind.domain == "security" else ErrorDialect.NEW_MCP
                )
            self.answer(request.id, encode_failure(request.id, fault.render(error_dialect)), batch)
            return
        exchange = StreamExchange(self, request, view, dialect, caller, session, batch)
        self._open[request.id] = exchange
        self._serve(exchange)

    def _serve(self, exchange: StreamExchange) -> None:
        asked = exchange.caller
        try:
            self._service.serve(exchange)
        except Exception:
            log.exception("%s could not be served", exchange.request.method)
            exchange.fail(Fault("INTERNAL_ERROR", "the request could not be served; the log says why"))
        if exchange.caller is not asked and self.caller is asked:
            self._speak_for(exchange.caller)

    def _speak_for(self, caller: Caller) -> None:
        """The service knows better by now who asks here."""
        if self._session is None:
            self._caller = caller
        else:
            self._session.caller = caller

    def _whose(self, request: Request) -> Caller:
        """Whose request it is: whoever's credential it brings, else the session's, else the stream's."""
        if request.auth and self._admit is not None:
            return self._admit(request.auth)
        return self.caller

    @property
    def caller(self) -> Caller:
        """Who asks where nothing else is said."""
        return self._caller if self._session is None else self._session.caller

    def _initialize(self, request: Request, caller: Caller, batch: Batch | None) -> None:
        if batch is not None:
            raise Fault("INVALID_REQUEST", "initialize must not be part of a batch")
        if self._session is not None:
            raise Fault("INVALID_REQUEST", "the session is open already", hint="use it, or open another connection")
        session = StreamSession(self, caller, read_initialize(request.params))
        result = self._service.initialize(session)
        self._session = session
        self.answer(request.id, encode_result(request.id, one_line(result)))

    def _told(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self._session is not None:
            self._session.initialized = True
        self._service.on_notification(self.caller, self._session, notification)

    # What goes out.

    def answer(self, id: Id, message: bytes, batch: Batch | None = None) -> None:
        """Send the one answer to a request, unless nobody wants it any more."""
        self._open.pop(id, None)
        if not self._talk.settle(id):
            if batch is not None:
                batch.answered(None)
        elif batch is not None:
            batch.answered(message)
        else:
            self.send(message)
        if self._last_words is not None and not self._open and self._later is None:
            self._loop.call_soon(self.close)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification, unless the client is not keeping up."""
        if self._held >= HELD_BYTES and not self._full:
            self._flush()
        if self._held < HELD_BYTES:
            self.send(encode_notification(method, one_line(params)))

    def ask(self, dialect: Dialect, method: str, params: bytes) -> Waiter:
        """Send a request of the server's own."""
        if dialect.modern:
            raise Fault("INTERNAL_ERROR", "servers do not send requests in the stateless era")
        if not dialect.capabilities.can_answer(method, params):
            raise Fault(
                "MISSING_CAPABILITY",
                f"the client did not say that it answers {method}",
                data={"requiredCapabilities": missing_capability(method, params)},
            )
        number = self._talk.reserve()
        waiter: Waiter = self._loop.create_future()
        waiter.add_done_callback(lambda done: self._given_up(number, done) if done.cancelled() else None)
        self.send(self._talk.ask(number, method, one_line(params), waiter, math.inf))
        return waiter

    def send(self, message: bytes) -> None:
        """Queue one message; all of a loop turn leave in one write."""
        if self._closed.done():
            return
        self._out.append(message)
        self._held += len(message)
        if not self._flushing and not self._full:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self._out or self._writer is None or self._writer.is_closing():
            return
        self._out.append(b"")
        data = b"\n".join(self._out)
        self._out.clear()
        self._held = 0
        self._writer.write(data)

    def _refuse(self, id: Id | None, fault: Fault, batch: Batch | None = None) -> None:
        """Refuse what cannot be read. It counts like a request that can."""
        try:
            self._service.count_malformed(self.caller)
        except Fault as refused:
            fault = refused
        message = encode_failure(id, fault.render(self._error_dialect))
        if batch is not None:
            batch.answered(message)
        else:
            self.send(message)

    def _given_up(self, id: int, waiter: Waiter) -> None:
        cancelled = self._talk.withdraw(id, why_cancelled(waiter))
        if cancelled is not None:
            self.send(cancelled)

    @property
    def _error_dialect(self) -> ErrorDialect:
        return ErrorDialect.NEW_MCP if self._session is None else ErrorDialect.OLD_MCP


def _settle(waiter: Waiter, answer: Result | Failure) -> None:
    if isinstance(answer, Failure):
        error = answer.error
        waiter.set_exception(Fault("UPSTREAM_ERROR", f"the client refused: {error.message}", code=error.code))
    else:
        waiter.set_result(answer.result)
