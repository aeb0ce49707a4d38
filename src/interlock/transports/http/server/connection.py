"""One client connection: requests are answered one at a time and in order, the others wait, bounded.

A request on an MCP path is answered by the endpoint, any other by an ASGI application. `RequestReader` reads the
requests, `ResponseWriter` writes the answers. A request whose head equals an earlier one is not parsed again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from interlock.transports.batching import Batching
from interlock.transports.http.paced_reading import PacedReading
from interlock.transports.http.server.asgi import AsgiRequest, address_of
from interlock.transports.http.server.asgi_application import AsgiApplication
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.http.server.http_request import NO_HEAD, HttpRequest, RequestWatcher
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.http.server.phase import RequestPhase
from interlock.transports.http.server.refusals import refusal_body
from interlock.transports.http.server.request_reader import RequestReader
from interlock.transports.http.server.response_writer import ResponseWriter
from interlock.transports.http.server.upgrades import PendingUpgrade, UpgradedConnection, UpgradeRequest
from interlock.transports.http.server.waiting_times import OverduePart, WaitingTimes
from interlock.transports.read_queue import ReadQueue

_IDLE, _BODY, _CLOSING = RequestPhase.IDLE, RequestPhase.BODY, RequestPhase.CLOSING
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(asyncio.Protocol):
    """Answers the requests of one client."""

    transport: asyncio.Transport
    flow: PacedReading
    writer: ResponseWriter
    _reader: RequestReader

    def __init__(self, listener: HttpListener, application: AsgiApplication) -> None:
        self.listener = listener
        self.client: tuple[str, int] | None = None
        """The address of the client."""
        self._application = application
        self._endpoint = listener.endpoint
        self._heads = listener.heads
        loop = asyncio.get_running_loop()
        self._batching = Batching.of(loop)
        self._reads = ReadQueue.of(loop)
        self.data_received = partial(self._batching.received, self)  # type: ignore[method-assign]
        """Bytes in pieces of any size. `take_in` gets them in their turn; `connection_lost` removes the reference."""
        self.active: HttpRequest | AsgiRequest | None = None
        """The request that is being answered. Bytes of any other are dropped."""
        self.watcher: RequestWatcher | None = None
        """Learns that the client of this request has gone."""
        self._queue: deque[HttpRequest | AsgiRequest] = deque()
        self._principal_name = ""
        """The principal of the request that is being answered, or was last; see `admit`."""
        self._advancing = False
        self._draining = False
        self._ended = False
        """Whether the client sends no more, and the connection closes when its bytes are read."""
        self._owes_continue = False
        self._unparsed = 0
        """Requests whose heads were not parsed again."""
        self._times = WaitingTimes(listener.bounds)

    # The transport calls these.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected. One above the limit is refused at once."""
        listener = self.listener
        self.transport = transport
        self.client = address_of(transport, "peername")
        self.writer = ResponseWriter(self, listener, transport, self._batching)
        self._reader = RequestReader(self, listener, transport, self._reads)
        self.flow = self._reader.flow
        listener.connections.add(self)
        if len(listener.connections) > listener.bounds.connections:
            transport.write(listener.render(503, b"", b"retry-after: 1\r\n", keep_alive=False))
            self._hang_up()

    def eof_received(self) -> bool:
        """The client sends no more. Everything it sent is read before the connection closes."""
        self._batching.settle()
        self._ended = bool(self.flow.waiting) or (self.is_behind() and not self.writer.stalled)
        return self._ended

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone. Break every reference cycle, so that a connection is freed when it closes, and not when
        the garbage collector next runs."""
        self.listener.connections.discard(self)
        active, self.active = self.active, None
        watcher, self.watcher = self.watcher, None
        unanswered = [*self._queue, active, self._reader.body.application_request]
        self._queue.clear()
        self._let_go()
        if exc is None:
            self.transport.close()
        for request in unanswered:
            if isinstance(request, AsgiRequest):
                request.on_connection_lost()
        if isinstance(active, HttpRequest):
            self.listener.streams.pop(active, None)
            if watcher is not None:
                watcher.on_request_gone(active)

    def pause_writing(self) -> None:
        """The client does not keep up: stop reading until it does."""
        self.writer.pause()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.writer.resume()
        self._advance()

    # The loop's batches and its queue of reads call these (`batching.Receiver`, `read_queue.QueuedReader`).

    def take_in(self, data: bytes) -> None:
        """Read bytes, in their turn."""
        reader = self._reader
        if reader.template is not None and self.active is None and reader.phase is _IDLE and not self.flow.waiting:
            # A whole request whose head equals an earlier one: the parser would find the same.
            start, _, body = data.partition(b"\r\n\r\n")
            known = self._heads.get(start) or reader.find_alike(start, data)
            if known is not None and len(body) == known[1] and not self._queue and not self.writer.stalled:
                self._unparsed += 1
                head = known[0]
                request = self.active = HttpRequest(self, head, head.keep_alive, body)
                self._principal_name = ""
                self._endpoint.handle(request)
                return
        reader.read(data)

    def read_on(self) -> None:
        """Answer the requests that waited for a turn of the loop, and read the bytes behind them."""
        if self.is_behind():
            self._advance(in_turn=True)
        if self.flow.waiting and not self.is_behind():
            self._reader.read_waiting()
        if "data_received" not in self.__dict__:
            return  # another protocol has the client now
        if not self.flow.waiting:
            self.flow.release()
            self._reader.body.recount()
            if self._ended and not self._queue:
                self.transport.close()

    def give_up(self) -> None:
        """End the connection at once, with all that is unread."""
        self.transport.abort()

    # The reader calls these, and a pending upgrade (`request_reader.ReadConnection`, `upgrades.Upgradable`).

    def is_idle(self) -> bool:
        """Whether all requests are answered."""
        return self.active is None and not self._queue

    def is_behind(self) -> bool:
        """Whether the next queued request could be answered now, but waits for loop time or for a slow client."""
        return self.active is None and bool(self._queue)

    def is_open(self) -> bool:
        """Whether more requests are taken."""
        return self._reader.phase is not _CLOSING and not self.transport.is_closing()

    def unanswered_bytes(self) -> int:
        """The bytes of the requests that are not answered yet."""
        size = 0 if self.active is None else self.active.received
        return size + sum(each.received for each in self._queue) if self._queue else size

    def take(self, request: HttpRequest, *, follows: bool) -> None:
        """Answer a request, or let it wait. `follows`: the bytes that it came with held one before it."""
        if not self.is_idle() or self.writer.stalled or (follows and self._reads.is_spent()):
            self._wait(request)
        else:
            self._begin(request)

    def take_for_application(self, request: AsgiRequest) -> None:
        """Have the application answer a request, or let it wait."""
        if self.is_idle():
            self._begin(request)
        else:
            self._wait(request)

    def take_upgrade(self, request: UpgradeRequest, rest: bytes) -> None:
        """Judge a request for a protocol that is spoken here; `rest` came behind it."""
        if self.listener.upgrader is not None:
            PendingUpgrade(self, self.listener.upgrader, request, rest).judge()

    def hand_over(self, upgraded: UpgradedConnection, rest: bytes) -> None:
        """Leave the client to another protocol."""
        self._let_go()
        connections = self.listener.connections
        connections.discard(self)
        connections.add(upgraded)
        upgraded.take_over(self.transport, rest, lambda: connections.discard(upgraded))

    def refuse(self, refusal: GuardRefusal) -> None:
        """Answer with a refusal, after the requests before it, and read nothing more."""
        if self._reader.phase is _CLOSING:
            return
        self.listener.count_refused()
        unfinished = self._reader.unfinished()
        self._reader.stop()
        if unfinished is not None and not self._take_back(unfinished):
            return
        request = HttpRequest(self, NO_HEAD, keep_alive=False, refusal=refusal)
        if self.is_idle():
            self._begin(request)
        else:
            self._queue.append(request)

    def expect_continue(self) -> None:
        """The client waits for `100 Continue`, which comes after the answers to the requests before."""
        if self.is_idle():
            self.writer.write(_CONTINUE)
        else:
            self._owes_continue = True

    def read_later(self, began: int | None) -> None:
        """Read bytes in a later turn of the loop, unless they wait for a slow client: its reading does that then."""
        if not self.writer.stalled or not self.is_behind():
            self._reads.add(self, began)

    # A request calls these (`http_request.RequestConnection`, `asgi.AsgiConnection`).

    def finish(self, request: HttpRequest, data: bytes) -> None:
        """The last bytes of an answer."""
        if self.active is not request:
            return
        self.writer.write(data)
        self.active = self.watcher = None
        listener = self.listener
        if listener.streams:
            listener.streams.pop(request, None)
        if listener.bodies.small_bytes or listener.bodies.large.bytes:
            self._reader.body.recount()
        if not request.keep_alive or self._draining:
            # A client that did not ask for the end may have sent more already.
            self._hang_up(lingering=request.refusal is not None or (request.head.keep_alive and not self._draining))
        elif self._queue or self.flow.is_paused or self._owes_continue:
            self._advance()

    def watch(self, request: HttpRequest, watcher: RequestWatcher | None) -> None:
        """Tell the watcher if the client goes before this request is answered."""
        if self.active is request:
            self.watcher = watcher

    def admit(self, request: HttpRequest, principal_name: str) -> None:
        """Count the bytes of this request for the principal of its key, and no longer for its address."""
        if self.active is request:
            self._principal_name = principal_name

    def on_body_released(self) -> None:
        """The request under way needs its body no more."""
        self._reader.body.recount()

    def on_response_complete(self) -> None:
        """The ASGI app has answered. A body that it did not wait for is not read, if much of it is still to come."""
        active, self.active = self.active, None
        reader = self._reader
        reader.body.recount()
        if self._draining:
            self._hang_up()
        elif active is not None and active is reader.unfinished() and reader.body.is_far_from_end():
            self._hang_up(lingering=True)
        elif not self.transport.is_closing():
            self._advance()

    # The counts of unread bytes and of bodies read these (`unread_bytes.SlowReader`).

    @property
    def peer(self) -> str:
        """The caller that the endpoint admitted, or the client's address."""
        if self._principal_name:
            return f"caller {self._principal_name}"
        return "address" if self.client is None else f"address {self.client[0]}"

    @property
    def unread_bytes(self) -> int:
        """The bytes that were written and not read by the client."""
        return self.transport.get_write_buffer_size()

    # The server calls these.

    def shutdown(self) -> None:
        """Close once the answer under way is complete."""
        self._draining = True
        if self.active is None:
            self._hang_up()
        else:
            self.active.end_connection()

    def answer_unfinished(self) -> None:
        """Answer the MCP request under way: the server stops, and does not wait for it any longer."""
        if isinstance(self.active, HttpRequest):
            self._endpoint.abandon(self.active)

    def sweep(self, now: float) -> None:
        """Close a connection that keeps us waiting for too long."""
        reader = self._reader
        begun, unread = reader.begun + self._unparsed, self.writer.count_unread()
        is_served = bool(self.flow.waiting) or self._is_serving()
        match self._times.judge(reader.phase, begun, unread, now, is_served=is_served):
            case OverduePart.NEXT_REQUEST:
                self._hang_up()
            case OverduePart.LINGERING:
                self.transport.abort()
            case OverduePart.READING:
                self.listener.count_timed_out()
                self.transport.abort()
            case OverduePart.REQUEST:
                self.listener.count_timed_out()
                self.refuse(GuardRefusal(408, "the request did not come in time"))

    def _is_serving(self) -> bool:
        """Whether the client waits for us, and not we for the client."""
        active, reader = self.active, self._reader
        if active is None:
            return False
        return not (active is reader.body.application_request and reader.phase is _BODY and not self.flow.is_paused)

    def _wait(self, request: HttpRequest | AsgiRequest) -> None:
        """Put a request behind those before it. A client that sends too many ahead is answered those, and no more."""
        if len(self._queue) >= self.listener.bounds.pipelined:
            self._reader.ignore_rest()
            self._queue[-1].end_connection()
            return
        self.flow.pause_reading()
        self._queue.append(request)
        self._reader.body.recount()
        if self.active is None and not self.writer.stalled:
            self._reads.add(self)

    def _begin(self, request: HttpRequest | AsgiRequest) -> None:
        self.active, self._principal_name = request, ""
        if isinstance(request, AsgiRequest):
            self._application.begin(request)
        elif request.refusal is None:
            self._endpoint.handle(request)
        else:
            refusal, listener = request.refusal, self.listener
            body = refusal_body(refusal, self._reader.target, listener.is_mcp)
            self.finish(request, listener.render(refusal.status, body, refusal.headers, keep_alive=False))

    def _advance(self, *, in_turn: bool = False) -> None:
        """Answer the waiting requests, as long as answers come at once, the client reads them and this turn of the loop
        has time for it; then read on. `in_turn`: one of them in any case."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._queue and self.active is None and not self.writer.stalled:
                if not in_turn and self._reads.is_spent():
                    self._reads.add(self)
                    return
                in_turn = False
                self._begin(self._queue.popleft())
        finally:
            self._advancing = False
        if self._queue or self.writer.stalled or self.transport.is_closing():
            return
        if self._owes_continue and self.active is None:
            self._owes_continue = False
            if self._reader.body.head is not None:
                self.writer.write(_CONTINUE)
        self.flow.resume_reading()
        if self.flow.waiting:
            self._reads.add(self)

    def _take_back(self, request: AsgiRequest) -> bool:
        """Take back an ASGI request whose body turned out bad. False when its answer has begun: there is no other."""
        request.disconnect()
        if self.active is request:
            if request.response_started:
                self.transport.close()
                return False
            self.active = None
        elif self._queue:
            self._queue.pop()
        return True

    def _let_go(self) -> None:
        """Read and write nothing more, and have no part refer to the connection. A second time does nothing."""
        if self.__dict__.pop("data_received", None) is not None:
            self._reads.discard(self)
            self._reader.close()
            self.writer.close()

    def _hang_up(self, lingering: bool = False) -> None:
        """Take no more requests, and close once everything is written."""
        self._reader.ignore_rest()
        self._queue.clear()
        if self.writer.end(lingering=lingering):
            self.flow.resume_reading()
