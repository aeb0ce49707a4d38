"""Exchanges that no transport made: one that wraps another, and one whose answer is a future."""

from __future__ import annotations

import asyncio

from interlock.hub.sessions.session import Exchange, HC_co, Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.results import complete, refusal_result
from interlock.transports.exchange import OpenExchange, SessionExchange
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Id, Request


def answer(exchange: Exchange, result: bytes, *, ttl_ms: int | None = None, server_info: bytes | None = None) -> None:
    """Answer with a result of the hub's own, in the form of the client's era."""
    modern = exchange.dialect.modern
    exchange.result(complete(result, ttl_ms=ttl_ms, server_info=server_info) if modern else result)


def refuse_tool(exchange: Exchange, fault: Fault) -> None:
    """Refuse a call of one of the hub's own tools, with a result that the model reads."""
    exchange.result(refusal_result(fault, modern=exchange.dialect.modern))


class WrappedExchange(SessionExchange[Session, HC_co]):
    """Wraps the client's exchange. Everything passes, unless a subclass changes it."""

    __slots__ = ("real",)

    def __init__(self, real: SessionExchange[Session, HC_co]) -> None:
        self.real = real
        super().__init__(real.request, real.preview, real.dialect, real.caller, real.session, real.headers)
        real.on_cancel = self.on_cancelled

    @property
    def dialect(self) -> Dialect:
        """That of the real exchange, which writes the answer."""
        return self.real.dialect

    @dialect.setter
    def dialect(self, dialect: Dialect) -> None:
        self.real.speak(dialect)

    @property
    def open(self) -> bool:
        return self.real.open

    @property
    def reachable(self) -> bool:
        return self.real.reachable

    @property
    def can_answer_later(self) -> bool:
        return self.real.can_answer_later

    def result(self, result: bytes) -> None:
        self.real.result(result)

    def fail(self, fault: Fault) -> None:
        self.real.fail(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self.real.pass_failure(error)

    def notify(self, method: str, params: bytes) -> None:
        self.real.notify(method, params)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        return self.real.ask(method, params)

    def drained(self) -> asyncio.Future[None] | None:
        return self.real.drained()

    def readmit(self, caller: HC_co) -> None:  # type: ignore[misc]
        super().readmit(caller)
        self.real.readmit(caller)

    def release_params(self) -> None:
        super().release_params()
        self.real.release_params()

    def close_stream(self) -> None:
        self.real.close_stream()

    @property
    def conversation(self) -> object | None:
        return self.real.conversation

    def sibling(self, id: Id) -> OpenExchange | None:
        return self.real.sibling(id)

    def on_cancelled(self, reason: str) -> None:
        """The client no longer wants the answer."""
        if self.on_cancel is not None:
            self.on_cancel(reason)


class FutureExchange(SessionExchange[Session, HC_co]):
    """A request without a client to notify. `answer` gets the result, or fails with a `Fault`."""

    __slots__ = ("answer",)

    def __init__(self, request: Request, preview: RequestPreview, dialect: Dialect, caller: HC_co) -> None:
        super().__init__(request, preview, dialect, caller, None, None)
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    @property
    def open(self) -> bool:
        return not self.answer.done()

    def result(self, result: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, fault: Fault) -> None:
        if not self.answer.done():
            self.answer.set_exception(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self.fail(Fault("UPSTREAM_ERROR", error.message, code=error.code))

    def notify(self, method: str, params: bytes) -> None:
        """Drop it: nobody watches the progress."""
