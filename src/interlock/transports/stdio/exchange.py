"""What a stream of lines holds: the one session it can have, requests and batches."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.transports.exchange import Caller, OpenExchange, Session
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
        self.request = request
        self.preview = view
        self.dialect = dialect
        self.caller = caller
        self.session = session
        self.headers = None
        self.on_cancel = None
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
            if self._asks or self.on_cancel is not None:
                self._settle()
            else:
                self._open = False
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
