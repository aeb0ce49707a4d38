"""What a stream of lines holds: the one session it can have, requests, batches, and calls known by their likeness."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import RequestPreview
from interlock.transports.alike_calls import Open, OpenExchange, Said
from interlock.transports.exchange import Caller, Session
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Request, encode_failure, encode_result, one_line

if TYPE_CHECKING:
    from interlock.transports.stdio.server import StdioServer

Waiter: TypeAlias = asyncio.Future[bytes]


class StreamSession(Session):
    """The one session that a stream can hold."""

    __slots__ = ("_server",)

    def __init__(self, server: StdioServer, caller: Caller, dialect: Dialect) -> None:
        super().__init__(secrets.token_urlsafe(16), caller, dialect)
        self._server = server

    def notify(self, method: str, params: bytes) -> None:
        self._server.notify(method, params)

    def ask(self, method: str, params: bytes) -> Waiter:
        return self._server.ask(self.dialect, method, params)


class StreamExchange(OpenExchange):
    """One request on a stream."""

    __slots__ = ("_asks", "_batch", "_open", "_server")

    def __init__(
        self,
        server: StdioServer,
        request: Request,
        view: RequestPreview,
        dialect: Dialect,
        caller: Caller,
        session: Session | None,
        batch: Batch | None,
    ) -> None:
        super().__init__(request, view, dialect, caller, session, None)
        self._server = server
        self._batch = batch
        self._asks: list[Waiter] | None = None
        self._open = True

    @property
    def open(self) -> bool:
        return self._open

    def result(self, result: bytes) -> None:
        try:
            line = one_line(result)
        except (UnicodeDecodeError, msgspec.DecodeError):
            self.fail(Fault("UPSTREAM_ERROR", "the answer is not JSON in UTF-8"))
            return
        self._end(encode_result(self.request.id, line))

    def fail(self, fault: Fault) -> None:
        self._end(encode_failure(self.request.id, fault.render(self.dialect.error_dialect)))

    def pass_failure(self, error: ErrorObject) -> None:
        self._end(encode_failure(self.request.id, error))

    def notify(self, method: str, params: bytes) -> None:
        if self._open:
            self._server.notify(method, params)

    def ask(self, method: str, params: bytes) -> Waiter:
        waiter = self._server.ask(self.dialect, method, params)
        if self._asks is None:
            self._asks = []
        self._asks.append(waiter)
        return waiter

    def cancel(self, reason: str) -> None:
        """The client no longer wants the answer."""
        if not self._open:
            return
        told = self.on_cancel
        self._settle()
        if self._batch is not None:
            self._batch.answered(None)
        if told is not None:
            told(reason)

    def _end(self, message: bytes) -> None:
        if self._open:
            self._settle()
            self._server.answer(self.request.id, message, self._batch)

    def _settle(self) -> None:
        """Nothing more is sent for this request. Whoever served it is let go: it refers to this exchange in turn."""
        self._open = False
        self.on_cancel = None
        asks, self._asks = self._asks, None
        for waiter in asks or ():
            waiter.cancel()


class Batch:
    """The answers to one batch, which leave together (2025-03-26, JSON-RPC batching)."""

    __slots__ = ("_answers", "_expected", "_server")

    def __init__(self, server: StdioServer) -> None:
        self._server = server
        self._answers: list[bytes] = []
        # One more than there are messages so far, until the loop turn is over and all are known.
        self._expected = 1
        asyncio.get_running_loop().call_soon(self.answered, None)

    def expect(self) -> None:
        self._expected += 1

    def answered(self, message: bytes | None) -> None:
        """One message is done with; None where it wanted no answer."""
        self._expected -= 1
        if message is not None:
            self._answers.append(message)
        if self._expected == 0 and self._answers:
            self._server.send(b"[%b]" % b",".join(self._answers))


class LineTurn:
    """A call on a line, known by its likeness (`alike_calls.Turn`)."""

    __slots__ = ("_call", "_id", "_server", "body")

    def __init__(self, server: StdioServer, body: bytes) -> None:
        self._server = server
        self.body = body
        self._id = 0
        self._call: Open | None = None

    @property
    def wanted(self) -> bool:
        """Whether nobody took it back, and the stream is there."""
        return self._call is not None and self._server.holder(self._id) is self._call

    def takes(self, said: Said, caller: Caller, id: int) -> bool:
        """Whether there is a place for it, and the stream still speaks for this caller."""
        return self._server.caller is caller and self._server.may_take(id)

    def hold(self, said: Said, id: int, call: Open) -> None:
        """It is being served: whatever ends it early is told to this one."""
        self._id, self._call = id, call
        self._server.take(id, call)

    def pass_on(self, said: Said, id: int, result: bytes) -> None:
        """Its good answer: it is over."""
        self._server.answer(id, encode_result(id, one_line(result)))

    def let_go(self, said: Said, id: int, call: Open) -> None:
        """It was not begun after all. Its id may be another's by now."""
        if self._server.holder(id) is call:
            self._server.let_go(id)

    def serve_at_length(self) -> None:
        """Nothing was done for it yet: have it served as if there were no trail."""
        self._server.serve_at_length(self.body)
