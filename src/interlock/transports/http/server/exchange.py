"""One request over HTTP: answered with one JSON body, or with an event stream from the first message before the answer.

In the stateless era a lost connection cancels the request. In the handshake era the stream waits to be resumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.transports.exchange import (
    GONE,
    AdmittedCaller,
    OpenExchange,
    Service,
    TransportSession,
    check_capability,
    why_cancelled,
)
from interlock.transports.http.server.answers import failure_status, fault_headers, fault_status
from interlock.transports.http.server.http_batch import HttpBatch
from interlock.transports.http.server.http_request import CLOSE, HttpRequest
from interlock.transports.http.server.outlets import MessageOutlet, RequestStream
from interlock.transports.http.server.sessions import HttpSession
from interlock.transports.http.server.streams import SessionStream
from interlock.transports.request_bytes import COPIES, SMALL, RequestBytes, full
from interlock.wire.cancellation import withdrawal
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import ErrorObject, Fault, internal_error
from interlock.wire.large import LARGE, JoinedArray
from interlock.wire.messages import (
    RESULT_LENGTH,
    Id,
    Request,
    encode_failure,
    encode_id,
    encode_notification,
    encode_request,
    encode_result,
    one_line,
)

_log = logging.getLogger(__name__)

LISTEN: Final = "subscriptions/listen"


class HttpExchange(OpenExchange):
    """A request in a POST."""

    # Class attributes: most requests never change these, so an instance need not hold them.
    session: TransportSession | None = None
    _channel: HttpSession | None = None
    on_cancel: Callable[[str], None] | None = None
    open = True
    _batch: HttpBatch | None = None
    _outlet: MessageOutlet | None = None
    _asks: dict[int, asyncio.Future[bytes]] | None = None
    _counted_in: RequestBytes | None = None

    def __init__(
        self,
        request: Request,
        preview: RequestPreview,
        dialect: Dialect,
        caller: AdmittedCaller,
        http: HttpRequest,
        channel: HttpSession | None = None,
        batch: HttpBatch | None = None,
    ) -> None:
        self.request = request
        self.preview = preview
        self.dialect = dialect
        self.caller = caller
        self.headers = http.head.headers
        self._http = http
        if channel is not None:
            self.session = channel.session
            self._channel = channel
            self._batch = batch

    def serve(self, service: Service, small: RequestBytes) -> None:
        """Have the service answer the request. A failure of the service is answered too. Raises if its session refuses
        it. `small` counts the bytes of requests whose bodies are not large."""
        channel = self._channel
        if channel is not None:
            channel.take(self.request.id, self)
        else:
            self._http.connection.watch(self._http, self)
        try:
            if SMALL < len(self.request.params) <= LARGE:
                self._hold(small)
            if channel is not None and self.request.method == "ping":
                self.result(b"{}")
            else:
                service.serve(self)
        except Fault as fault:
            self.fail(fault)
        except Exception:
            _log.exception("%s failed", self.request.method)
            self.fail(internal_error())

    @property
    def reachable(self) -> bool:
        """Whether the client's connection, or the stream that it came back to, is open."""
        outlet = self._outlet
        return outlet.attached if isinstance(outlet, SessionStream) else self._http.connection.active is self._http

    @property
    def can_answer_later(self) -> bool:
        """Whether the client's connection is open, or the client has a stream to come back to."""
        return self.open and (isinstance(self._outlet, SessionStream) or not self._http.over)

    def result(self, result: bytes) -> None:
        """The good answer."""
        if not self.open:
            return
        if self._outlet is not None or self._batch is not None:
            try:
                self._finish(_line(encode_result(self.request.id, result)), 200)
            except Fault as fault:
                self.fail(fault)
            return
        self.open = False
        self.on_cancel = None
        if self._counted_in is not None:
            self._release()
        http, connection, id_ = self._http, self._http.connection, self.request.id
        if self._channel is not None:
            self._channel.settle(id_)
        if connection.active is not http:
            return
        # The commonest answer, formatted in one step.
        encoded_id = b"%d" % id_ if type(id_) is int else encode_id(id_)
        size = RESULT_LENGTH + len(encoded_id) + len(result)
        head, close = connection.listener.ok_head, b"" if http.keep_alive else CLOSE
        if size <= LARGE:
            answer = b'%b%d\r\n%b\r\n{"jsonrpc":"2.0","id":%b,"result":%b}' % (head, size, close, encoded_id, result)
            connection.finish(http, answer)
            return
        # Written in parts, since joining would copy it once more.
        connection.writer.write(b'%b%d\r\n%b\r\n{"jsonrpc":"2.0","id":%b,"result":' % (head, size, close, encoded_id))
        connection.writer.write(result)
        connection.finish(http, b"}")

    def result_list(self, head: bytes, listed: JoinedArray) -> None:
        """The good answer whose last member is a list. A large list is written as it is."""
        http, connection = self._http, self._http.connection
        apart = self._outlet is None and self._batch is None and http.keep_alive
        if not (self.open and apart and len(listed.octets) > LARGE) or http.over:
            super().result_list(head, listed)
            return
        self.open = False
        self.on_cancel = None
        self._release()
        if self._channel is not None:
            self._channel.settle(self.request.id)
        begun = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (encode_id(self.request.id), head)
        size = len(begun) + len(listed.octets) + 2
        connection.writer.write(b"%b%d\r\n\r\n%b" % (connection.listener.ok_head, size, begun))
        connection.writer.write(listed.octets)
        connection.finish(http, b"}}")

    def fail(self, fault: Fault) -> None:
        """The bad answer, in the client's own dialect."""
        if self.open:
            payload = encode_failure(self.request.id, fault.render(self.dialect.error_dialect))
            self._finish(payload, fault_status(fault, self.dialect.modern), fault_headers(fault))

    def pass_failure(self, error: ErrorObject) -> None:
        """The bad answer of a server behind us, as it came."""
        if not self.open:
            return
        try:
            payload = _line(encode_failure(self.request.id, error))
        except Fault as fault:
            self.fail(fault)
        else:
            self._finish(payload, failure_status(error.code, self.dialect.modern))

    def notify(self, method: str, params: bytes) -> None:
        """Notify the client about this request. Raises UPSTREAM_ERROR for params that are not UTF-8."""
        if self.open:
            line = _line(encode_notification(method, params))
            self._stream().send(line)

    def sibling(self, id: Id) -> OpenExchange | None:
        return None if self._channel is None else self._channel.opened.get(id)

    def drained(self) -> asyncio.Future[None] | None:
        return self._outlet.drained() if self.open and self._outlet is not None else None

    def close_stream(self) -> None:
        """Close the response before the answer (2025-11-25, Sending Messages to the Server).

        The client has an event id, with which it comes back, and is told when.
        """
        if self.open and self._batch is None and self.dialect.revision is R2025_11_25:
            outlet = self._stream()
            if isinstance(outlet, SessionStream):
                outlet.hang_up()

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on this request's own stream."""
        channel = self._channel
        if channel is None:
            raise Fault("INTERNAL_ERROR", f"{method} cannot be sent: this revision has it inside the result")
        if not self.open:
            raise Fault("CANCELLED", "the client no longer waits for this request")
        check_capability(self.dialect, method, params)
        if self._outlet is None and self._http.over:
            raise Fault("UPSTREAM_UNAVAILABLE", "the client went before it could be asked")
        params = _line(params)
        outlet = self._stream()
        id_, future = channel.expect()
        if self._asks is None:
            self._asks = {}
        self._asks[id_] = future
        outlet.send(encode_request(id_, method, params))
        future.add_done_callback(lambda done: self._on_request_done(id_, done))
        return future

    def end_listening(self, reason: str) -> None:
        """End a subscription by itself: with a result, so that the client knows that nothing broke (2026-07-28,
        Subscriptions: Graceful Closure)."""
        on_cancel = self.on_cancel
        self.result(msgspec.json.encode({"resultType": "complete", "_meta": {SUBSCRIPTION_ID: self.request.id}}))
        if on_cancel is not None:
            on_cancel(reason)

    def release_params(self) -> None:
        """Free the params and the body that they came in, unless it is a batch."""
        super().release_params()
        self._release()
        if self._batch is None:
            self._http.release_body()

    def on_request_gone(self, http: HttpRequest) -> None:
        """The connection is lost, and no session can bring the client back."""
        self.cancel(GONE)

    def _end_without_answer(self) -> None:
        self._settle()
        if self._batch is not None:
            self._batch.answered(None)
        elif self._outlet is not None:
            self._outlet.end()
        else:
            self._http.answer(202)

    def _finish(self, payload: bytes, status: int, headers: bytes = b"") -> None:
        self._settle()
        if self._batch is not None:
            self._batch.answered(payload)
        elif self._outlet is not None:
            self._outlet.send(payload)
            self._outlet.end()
        else:
            self._http.answer(status, payload, headers)

    def _settle(self) -> None:
        """Mark the request as over, and withdraw its questions to the client."""
        self.open = False
        self.on_cancel = None
        self._release()
        channel = self._channel
        if channel is not None:
            channel.settle(self.request.id)
            if self._asks:
                for id_ in list(self._asks):
                    self._withdraw(id_)

    def _hold(self, small: RequestBytes) -> None:
        """Count the bytes of the request. Raises RESOURCE_EXHAUSTED where there is no room for them."""
        self._counted_in = small
        if not small.hold(self, self._http.sender, COPIES * len(self.request.params)):
            raise full()

    def _release(self) -> None:
        counted_in, self._counted_in = self._counted_in, None
        if counted_in is not None:
            counted_in.release(self)

    def _stream(self) -> MessageOutlet:
        if self._outlet is None:
            if self._batch is not None:
                self._outlet = self._batch.stream()
            elif self._channel is not None:
                self._outlet = self._channel.streams.open(self._http)
            else:
                self._outlet = RequestStream(self._http)
        return self._outlet

    def _on_request_done(self, id_: int, done: asyncio.Future[bytes]) -> None:
        if done.cancelled() and self._asks is not None and id_ in self._asks:
            self._withdraw(id_)
        elif self._asks is not None:
            self._asks.pop(id_, None)

    def _withdraw(self, id_: int) -> None:
        """Tell the client that its answer is no longer wanted."""
        assert self._asks is not None
        assert self._channel is not None
        future = self._asks.pop(id_)
        self._channel.unexpect(id_)
        if future.done() and not future.cancelled():
            return
        why = why_cancelled(future, "the request it belongs to is over")
        future.cancel()
        if self._outlet is not None:
            self._outlet.send(encode_notification(CANCELLED_METHOD, withdrawal(id_, why)))


def _line(payload: bytes) -> bytes:
    """The message on one line, as an event needs it. Raises UPSTREAM_ERROR if it is not JSON in UTF-8."""
    try:
        return one_line(payload)
    except (UnicodeDecodeError, msgspec.DecodeError) as cause:
        raise Fault("UPSTREAM_ERROR", f"not JSON in UTF-8: {cause}") from None
