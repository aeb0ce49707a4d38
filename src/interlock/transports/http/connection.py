"""One client connection: requests are answered one at a time and in order, the others wait, bounded.

A request on an MCP path is answered by the endpoint, any other by an ASGI application. After a refusal nothing more is
read. `protocol.py` reads the requests, `writing.py` writes the answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TypeAlias

from interlock.transports.http.asgi import AsgiRequest
from interlock.transports.http.asgi_application import AsgiApplication
from interlock.transports.http.bodies import CROWDED
from interlock.transports.http.guard import Refusal
from interlock.transports.http.http_request import NO_HEAD, HttpRequest
from interlock.transports.http.listener import HttpListener
from interlock.transports.http.phase import Phase
from interlock.transports.http.refusals import refusal_body
from interlock.transports.http.writing import WritingConnection
from interlock.transports.read_queue import ReadQueue

Waiting: TypeAlias = HttpRequest | AsgiRequest

_IDLE, _HEAD, _BODY, _CLOSING = Phase.IDLE, Phase.HEAD, Phase.BODY, Phase.CLOSING


class HttpConnection(WritingConnection):
    """Answers the requests of one client."""

    def __init__(self, listener: HttpListener, application: AsgiApplication) -> None:
        super().__init__(listener, application)
        self.data_received = partial(self._batching.received, self)  # type: ignore[method-assign]
        """Bytes in pieces of any size. `take_in` gets them in their turn; `connection_lost` removes the reference."""
        self._phase = _IDLE
        self._target = b""
        self._body: bytes | bytearray = b""
        self._asgi: AsgiRequest | None = None
        """The last request for the ASGI application, whose body may be coming in."""
        self._asgi_bytes = 0
        self._reading: HttpRequest | None = None
        """The MCP request whose body is coming in."""
        self._sender = ""
        """The owner of the caller that sends the large body that came last, where it has a valid key."""
        self._reads = ReadQueue.of(self.loop)
        self._queue: deque[Waiting] = deque()
        self._advancing = False
        self._draining = False
        self._ended = False
        """Whether the client sends no more, and the connection closes when its bytes are read."""
        self._owes_continue = False
        self._serial = 0
        self._seen: tuple[Phase, int, int] = (_IDLE, -1, 0)
        self._seen_at = 0.0

    # The transport calls these.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected. One above the limit is refused at once."""
        super().connection_made(transport)
        self.listener.connections.add(self)
        if len(self.listener.connections) > self.listener.bounds.connections:
            transport.write(self.listener.render(503, b"", b"retry-after: 1\r\n", keep_alive=False))
            self._hang_up()

    def eof_received(self) -> bool:
        """The client sends no more. Everything it sent is read before the connection closes."""
        self._batching.settle()
        self._ended = bool(self.flow.waiting) or (self._is_behind() and not self._stalled)
        return self._ended

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone. Break every reference cycle, so that a connection is freed when it closes, and not when
        the garbage collector next runs."""
        self.listener.connections.discard(self)
        self._reads.discard(self)
        self._phase = _CLOSING
        self._let_go()
        super().connection_lost(exc)
        self.__dict__.pop("data_received", None)
        self._reading = None
        waiting = [*self._queue, self._active, self._asgi]
        self._queue.clear()
        self._active = self._asgi = None
        for request in waiting:
            if isinstance(request, AsgiRequest):
                request.on_connection_lost()
        active = waiting[-2]
        if isinstance(active, HttpRequest):
            self._lose(active)

    def pause_writing(self) -> None:
        """The client does not keep up: stop reading until it does."""
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._advance()

    # The loop's batches call these (`batching.Receiver`).

    def take_in(self, data: bytes) -> None:
        """Read bytes, in their turn."""
        raise NotImplementedError

    # The loop's queue of reads calls this, and `give_up` (`read_queue.QueuedReader`).

    def read_on(self) -> None:
        """Go on with what waited for a turn of the loop."""
        raise NotImplementedError

    # A request calls these (`http_request.Connection`).

    def finish(self, http: HttpRequest, data: bytes) -> None:
        """The last bytes of an answer."""
        if self._events.waiting:
            self._events.flush(self.transport)
        if self._batching.running:
            self._batching.write(self.transport, data)
        else:
            self.transport.write(data)
        if self._stalled:
            self.listener.unread.count(self, self._following(data))
        self._last_owner = http.owner
        http.connection = http.on_gone = http.on_stop = self._active = None
        listener = self.listener
        if listener.streams:
            listener.streams.pop(http, None)
        if listener.bodies.small_bytes or listener.bodies.large_bytes:
            self._recount()
        if not http.keep_alive or self._draining:
            # A client that did not ask for the end may have sent more already.
            self._hang_up(lingering=http.refusal is not None or (http.head.keep_alive and not self._draining))
        elif self._queue or self.flow.read_paused or self._owes_continue:
            self._advance()

    # The listener's count of bodies calls these (`bodies.Sender`).

    @property
    def sender(self) -> str:
        """The caller that sends the body, or the client's address."""
        return f"caller {self._sender}" if self._sender else self.owner

    def give_way(self) -> None:
        """Refuse a body that comes in slowly: others need its memory."""
        self._refuse(CROWDED)

    # The server calls these.

    def shutdown(self) -> None:
        """Close once the answer under way is complete."""
        self._draining = True
        if self._active is None:
            self._hang_up()
        else:
            self._active.keep_alive = False

    def answer_unfinished(self) -> None:
        """Answer the MCP request under way: the server stops, and does not wait for it any longer."""
        if isinstance(self._active, HttpRequest):
            self.listener.endpoint.abandon(self._active)

    def sweep(self, now: float) -> None:
        """Close a connection that keeps us waiting for too long."""
        unread = self.transport.get_write_buffer_size()
        if unread:
            self.listener.unread.count(self)
        else:
            self.listener.unread.forget(self)
        seen = (self._phase, self._serial, unread)
        if seen != self._seen or (not unread and (self._is_serving() or self.flow.waiting)):
            self._seen = seen
            self._seen_at = now
            return
        waited = now - self._seen_at
        bounds = self.listener.bounds
        if unread:
            if waited > bounds.stall_s:
                self.listener.timed_out += 1
                self.transport.abort()
        elif self._phase is _IDLE and waited > (bounds.idle_s if self._serial else bounds.head_s):
            self._hang_up()
        elif self._phase is _CLOSING and waited > bounds.linger_s:
            self.transport.abort()
        elif (self._phase is _HEAD and waited > bounds.head_s) or (self._phase is _BODY and waited > bounds.body_s):
            self.listener.timed_out += 1
            self._refuse(Refusal(408, "the request did not come in time"))

    # An ASGI request calls this (`asgi.Connection`).

    def on_response_complete(self) -> None:
        """The ASGI app has answered. A body that it did not wait for is not read, if much of it is still to come."""
        active, self._active = self._active, None
        if isinstance(active, AsgiRequest):
            active.body = bytearray()
            self._recount()
        if self._draining:
            self._hang_up()
        elif active is self._asgi and self._phase is _BODY and self._reading is None and self._far_from_end():
            self._hang_up(lingering=True)
        elif not self.transport.is_closing():
            self._advance()

    def _far_from_end(self) -> bool:
        """Whether more of the body is to come than is read for the sake of the connection."""
        length = None if self._asgi is None else dict(self._asgi.scope["headers"]).get(b"content-length")
        return length is None or int(length) - self._asgi_bytes > self.listener.bounds.early_bytes

    def _answer_by_application(self, request: AsgiRequest) -> None:
        self._asgi = request
        if self._active is None and not self._queue:
            self._active = request
            self._application.begin(request)
        else:
            self._wait(request)

    def _wait(self, waiting: Waiting) -> None:
        """Put a request behind those before it. A client that sends too many ahead is answered those, and no more."""
        if len(self._queue) < self.listener.bounds.pipelined:
            self.flow.pause_reading()
            self._queue.append(waiting)
            self._recount()
            return
        self._phase = _CLOSING
        self._queue[-1].keep_alive = False

    def _advance(self, *, in_turn: bool = False) -> None:
        """Answer the waiting requests, as long as answers come at once, the client reads them and this turn of the loop
        has time for it; then read on. `in_turn`: one of them in any case."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._queue and self._active is None and not self._stalled:
                if not in_turn and self._reads.is_spent():
                    self._reads.add(self)
                    return
                in_turn = False
                waiting = self._active = self._queue.popleft()
                if isinstance(waiting, HttpRequest):
                    self._take(waiting)
                else:
                    self._application.begin(waiting)
        finally:
            self._advancing = False
        if self._queue or self._stalled or self.transport.is_closing():
            return
        if self._owes_continue and self._active is None:
            self._owes_continue = False
            if self._reading is not None:
                self._batching.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")
        self.flow.resume_reading()
        if self.flow.waiting:
            self._reads.add(self)

    def _is_behind(self) -> bool:
        """Whether requests wait that nothing stands before: for a turn of the loop, or for the client to read."""
        return self._active is None and bool(self._queue)

    def _take(self, http: HttpRequest) -> None:
        refusal = http.refusal
        if refusal is None:
            self.listener.endpoint.handle(http)
            return
        body = refusal_body(refusal, self._target, self.listener.is_mcp)
        self.finish(http, self.listener.render(refusal.status, body, refusal.headers, keep_alive=False))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, after the requests before it, and read nothing more."""
        if self._phase is _CLOSING:
            return
        self.listener.refused += 1
        unfinished = self._asgi if self._phase is _BODY and self._reading is None else None
        self._phase = _CLOSING
        self._reading = None
        self._let_go()
        if unfinished is not None and not self._drop(unfinished):
            return
        http = HttpRequest(self, NO_HEAD, keep_alive=False, refusal=refusal)
        if self._active is None and not self._queue:
            self._active = http
            self._take(http)
        else:
            self._queue.append(http)

    def _drop(self, request: AsgiRequest) -> bool:
        """Take back an ASGI request whose body turned out bad. False when its answer has begun: there is no other."""
        request.disconnect()
        if self._active is request:
            if request.response_started:
                self.transport.close()
                return False
            self._active = None
        elif self._queue:
            self._queue.pop()
        return True

    def _let_go(self) -> None:
        """The body is no longer held here, nor bytes that wait."""
        self._body = b""
        self.flow.release()
        self.listener.bodies.release(self)

    def _recount(self) -> None:
        """A request was answered, or waits behind another."""
        size = self._size()
        if self._body or size > self.listener.bounds.early_bytes:
            self.listener.bodies.hold(self, size)
        else:
            self.listener.bodies.release(self)

    def _size(self) -> int:
        """The bytes of all requests on this connection that are not answered yet."""
        active = self._active
        size = 0
        if active is not None:
            size = len(active.body) if isinstance(active, HttpRequest) else self._asgi_bytes
        return size + len(self._body) + len(self.flow.waiting) + sum(len(each.body) for each in self._queue)

    def _is_serving(self) -> bool:
        """Whether the client waits for us, and not we for the client."""
        active = self._active
        if active is None:
            return False
        return not (active is self._asgi and self._phase is _BODY and not self.flow.read_paused)

    def _hang_up(self, lingering: bool = False) -> None:
        """Close once everything is written. A client that still sends gets time to read why (RFC 9112, Tear-down)."""
        self._phase = _CLOSING
        self._queue.clear()
        if self.transport.is_closing():
            return
        self._batching.settle()
        if not lingering or not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # it has gone already, and the loop will say so
            self.transport.abort()
        else:
            self.flow.resume_reading()
