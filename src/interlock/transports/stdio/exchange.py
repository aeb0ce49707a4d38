"""The requests and the batches of a stream of lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.transports.exchange import AdmittedCaller, OpenExchange, Service, TransportSession
from interlock.transports.request_bytes import SMALL, full
from interlock.transports.sessions.session import ClientAnswer
from interlock.transports.sessions.stream_session import SessionStream
from interlock.wire.errors import ErrorObject, Fault, internal_error
from interlock.wire.large import CheckedJson
from interlock.wire.messages import Id, Request, encode_failure, encode_id, one_line
from interlock.wire.names import CARRIAGE_RETURN, LINE_FEED

Waiter: TypeAlias = asyncio.Future[bytes]

_log = logging.getLogger("interlock.transports")


class StreamClient(SessionStream, Protocol):
    """The client at the other end of the stream."""

    @property
    def owed(self) -> Mapping[Id, OpenExchange | None]:
        """The requests that have no answer yet."""

    def answer(self, id: Id, message: bytes, batch: StreamBatch | None = None) -> None:
        """Send the one answer to a request, unless it is no longer wanted."""

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""

    def ask(self, dialect: Dialect, method: str, params: bytes) -> ClientAnswer:
        """Send a request of the server's own. Raises a `Fault`."""

    def send(self, message: bytes) -> None:
        """Send a message."""

    def hold(self, exchange: StreamExchange) -> bool:
        """Count the bytes of a request. False where there is no room for them."""

    def release(self, exchange: StreamExchange) -> None:
        """The bytes of a request count no more."""


class StreamExchange(OpenExchange):
    """One request on a stream."""

    __slots__ = ("_asks", "_batch", "_client", "_counts", "open")

    open: bool
    reachable = True
    """The client reads until it closes the stream, which cancels its requests."""

    def __init__(
        self,
        client: StreamClient,
        request: Request,
        view: RequestPreview,
        dialect: Dialect,
        caller: AdmittedCaller,
        session: TransportSession | None,
        batch: StreamBatch | None,
    ) -> None:
        self.request = request
        self.preview = view
        self.dialect = dialect
        self.caller = caller
        self.session = session
        self.headers = None
        self.on_cancel = None
        self._client = client
        self._batch = batch
        self._asks: list[Waiter] | None = None
        self._counts = False
        """Whether the bytes of the request count."""
        self.open = True

    def serve(self, service: Service) -> None:
        """Have the request answered, also where the service fails, or open requests hold too many bytes already."""
        if len(self.request.params) > SMALL:
            self._counts = True
            if not self._client.hold(self):
                self.fail(full())
                return
        try:
            service.serve(self)
        except Exception:
            _log.exception("%s could not be served", self.request.method)
            self.fail(internal_error())

    def result(self, result: bytes) -> None:
        if type(result) is not CheckedJson and (
            not result.isascii() or LINE_FEED in result or CARRIAGE_RETURN in result
        ):
            try:
                result = one_line(result)
            except (UnicodeDecodeError, msgspec.DecodeError):
                self.fail(Fault("UPSTREAM_ERROR", "the answer is not JSON in UTF-8"))
                return
        id_ = self.request.id
        encoded_id = b"%d" % id_ if type(id_) is int else encode_id(id_)
        message = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encoded_id, result)
        if self.open:
            if self._asks or self.on_cancel is not None or self._counts:
                self._settle()
            self.open = False
            self._client.answer(id_, message, self._batch)

    def fail(self, fault: Fault) -> None:
        self._end(encode_failure(self.request.id, fault.render(self.dialect.error_dialect)))

    def pass_failure(self, error: ErrorObject) -> None:
        self._end(encode_failure(self.request.id, error))

    def notify(self, method: str, params: bytes) -> None:
        if self.open:
            self._client.notify(method, params)

    def drained(self) -> asyncio.Future[None] | None:
        return self._client.drained() if self.open else None

    @property
    def conversation(self) -> object:
        return self._client

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._client.owed.get(id)

    def ask(self, method: str, params: bytes) -> Waiter:
        waiter = self._client.ask(self.dialect, method, params)
        if self._asks is None:
            self._asks = []
        self._asks.append(waiter)
        return waiter

    def release_params(self) -> None:
        """Free the params. Their bytes count no more."""
        super().release_params()
        self._release()

    def _end_without_answer(self) -> None:
        self._settle()
        if self._batch is not None:
            self._batch.answered(None)

    def _end(self, message: bytes) -> None:
        if self.open:
            self._settle()
            self._client.answer(self.request.id, message, self._batch)

    def _settle(self) -> None:
        """End the request. Drop the reference to its server, which refers to this exchange in turn."""
        self.open = False
        self.on_cancel = None
        asks, self._asks = self._asks, None
        for waiter in asks or ():
            waiter.cancel()
        self._release()

    def _release(self) -> None:
        if self._counts:
            self._counts = False
            self._client.release(self)


class StreamBatch:
    """The answers to one batch, which leave together (2025-03-26, JSON-RPC batching)."""

    __slots__ = ("_answers", "_client", "_expected")

    def __init__(self, client: StreamClient) -> None:
        self._client = client
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
            self._client.send(b"[%b]" % b",".join(self._answers))
