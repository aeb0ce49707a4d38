"""The connection: uvicorn's own, except that a request on an MCP path is answered before ASGI begins.

One answer at a time and in order; what comes in meanwhile waits, bounded. After a refusal nothing more is read.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from interlock.transports.batching import Batching
from interlock.transports.http import guard
from interlock.transports.http.bodies import CROWDED
from interlock.transports.http.guard import Refusal
from interlock.transports.http.listener import HttpListener, Known
from interlock.transports.http.refusals import refusal_body
from interlock.transports.http.template import Template
from interlock.transports.http.turn import NO_HEAD, Head, Turn

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    Waiting: TypeAlias = Turn | tuple[RequestResponseCycle, ASGI3Application]


class Phase(enum.Enum):
    """What is being read."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    DEAF = "deaf"
    """Nothing any more: the connection closes after what is being answered."""


_IDLE, _HEAD, _BODY, _DEAF = Phase.IDLE, Phase.HEAD, Phase.BODY, Phase.DEAF
_FEW_HEADERS = 32
_LINGER_BYTES = 16 * 1024 * 1024


class HubProtocol(HttpToolsProtocol):
    """One connection from a client."""

    def __init__(
        self,
        listener: HttpListener,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.listener = listener
        self._rounds = Batching.of(self.loop)
        self.data_received = partial(self._rounds.received, self)  # type: ignore[method-assign]
        """Bytes, in whatever pieces they come: in their turn they are taken in. `connection_lost` takes it back."""
        self._phase = _IDLE
        self._target = b""
        self._first: bytes | None = None
        """The bytes that begin with the request being read, where one piece of them does."""
        self._template: Template | None = None
        self._head: dict[bytes, bytes] | None = None
        self._repeats = 0
        self._fed = 0
        """Bytes since the last whole request."""
        self._body: bytes | bytearray = b""
        self._asgi_bytes = 0
        self._reading: Turn | None = None
        """The MCP request whose body is coming in."""
        self._active: Turn | RequestResponseCycle | None = None
        """What is being answered."""
        self._queue: deque[Waiting] = deque()
        self._advancing = False
        self._draining = False
        self._stalled = False
        self._owes_continue = False
        self._without_upgrade: bytes | None = None
        self._serial = 0
        self._seen: tuple[Phase, int, int] = (_IDLE, -1, 0)
        self._seen_at = 0.0

    # What the transport tells.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected; it is turned away at once where too many are."""
        super().connection_made(transport)
        self.listener.connections.add(self)
        if len(self.listener.connections) > self.listener.bounds.connections:
            transport.write(self.listener.render(503, b"", b"retry-after: 1\r\n", keep_alive=False))
            self._hang_up()

    def eof_received(self) -> None:
        """The client sends no more: what it sent is gone through before the connection closes."""
        self._rounds.settle()

    def take_in(self, data: bytes) -> None:
        """Bytes that came, in their turn."""
        phase = self._phase
        if phase is _IDLE:
            if self._active is None and self._template is not None:
                # A whole request that is like one before it is not parsed again.
                start, _, body = data.partition(b"\r\n\r\n")
                known = self.listener.heads.get(start) or self._alike(start, data)
                if known is not None and len(body) == known[1] and not self._queue and not self._stalled:
                    self._serial += 1
                    head = known[0]
                    turn = self._active = Turn(self, head, head.keep_alive, body)
                    self.listener.endpoint.handle(turn)
                    return
            self._first = data
        elif phase is _DEAF:
            self._fed += len(data)
            if self._fed > _LINGER_BYTES:
                self.transport.abort()
            return
        self._fed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._on_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(Refusal(400, f"not a proper HTTP request: {error}"))
        if self._phase is _HEAD and self._fed > self.listener.bounds.header_bytes:
            limit = self.listener.bounds.header_bytes
            self._refuse(Refusal(431, f"headers are over the limit of {limit} bytes", "TOO_LARGE"))

    def give_up(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone. Whatever refers to this connection, and is referred to by it, is let go of: a connection
        is freed when it is closed, not when the collector next looks."""
        self.listener.connections.discard(self)
        self._phase = _DEAF
        self._let_go()
        super().connection_lost(exc)
        self.__dict__.pop("data_received", None)
        self._first = self._template = self._head = self._reading = None
        waiting = [each[0] for each in self._queue if not isinstance(each, Turn)]
        self._queue.clear()
        active, self._active = self._active, None
        if isinstance(active, RequestResponseCycle):
            waiting.append(active)
        elif active is not None:
            self._lose(active)
        if self.cycle is not None:
            waiting.append(self.cycle)
            self.cycle = None  # type: ignore[assignment]
        for cycle in waiting:
            _forsake(cycle)

    def pause_writing(self) -> None:
        """The client does not keep up: nothing more is taken from it until it does."""
        super().pause_writing()
        self._stalled = True
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        self._stalled = False
        self._advance()

    # What the parser tells.

    def on_message_begin(self) -> None:
        """A request starts. Reading pauses if another is still being answered."""
        if self._phase is _DEAF:
            return
        self._phase = _HEAD
        self._serial += 1
        self._target = b""
        self._head = {}
        self._repeats = 0
        if self._active is not None:
            self.flow.pause_reading()

    def on_url(self, url: bytes) -> None:
        """The request target, or a piece of it."""
        if self._phase is not _DEAF:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        head = self._head
        if head is None:
            self._refuse(Refusal(400, "trailers are not taken"))
            return
        if len(head) + self._repeats > self.listener.bounds.header_count:
            self._refuse(Refusal(431, f"more than {self.listener.bounds.header_count} headers", "TOO_LARGE"))
            return
        name = name.lower()
        # The parser leaves the space after a value, which is no part of it (RFC 9110, Field Values).
        value = value.rstrip(b" \t")
        if name not in head:
            head[name] = value
        else:
            self._on_repeated_header(head, name, value)

    def on_headers_complete(self) -> None:
        """The guard's moment, and the parting of the ways."""
        head = self._head
        if head is None:
            return
        self._head = None
        first, self._first = self._first, None
        listener = self.listener
        parser = self.parser
        method = parser.get_method()
        version = parser.get_http_version()
        refusal = guard.check_head(method, head, version, listener.faces, listener.limits.message_bytes)
        if refusal is None and (
            # What began in the middle of a piece of bytes was not counted from its beginning.
            first is None or self._fed > listener.bounds.header_bytes or len(head) + self._repeats > _FEW_HEADERS
        ):
            refusal = guard.check_size(head, self._repeats, listener.bounds, self._target)
        found = listener.resolve(self._target) if refusal is None else refusal
        if isinstance(found, Refusal):
            self._refuse(found)
            return
        if b"upgrade" in head and parser.should_upgrade():
            self._drop_upgrade(head, version)
            return
        path, is_mcp = found
        self._phase = _BODY
        if not is_mcp:
            self._begin_asgi(head)
            return
        keep_alive = version == "1.1" and parser.should_keep_alive()
        known = Head(method, path, head, keep_alive, version == "1.1", int(head.get(b"content-length", b"0")))
        self._reading = Turn(self, known, keep_alive)
        if b"expect" in head:
            self._on_expect(head[b"expect"], version)
        elif first is not None:
            self._template = Template.of(first, known)
        if (known.length or b"transfer-encoding" in head) and not _is_whole(first, known):
            refusal = listener.endpoint.foresee(known)
            if refusal is not None:
                self._refuse(refusal)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._phase is not _BODY:
            return
        limit = self.listener.limits.message_bytes
        if self._reading is None:
            self._asgi_bytes += len(body)
            size = self._asgi_bytes
            super().on_body(body)
        else:
            held = self._body
            if not held:
                self._body = body
            elif type(held) is bytearray:
                held += body
            else:
                self._body = bytearray(held) + body
            size = len(self._body)
        if size > limit:
            self._refuse(Refusal(413, f"the body is over the limit of {limit} bytes", "TOO_LARGE"))
        elif not self.listener.bodies.hold(self, size if self._active is None and not self._queue else self._size()):
            self._refuse(CROWDED)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._phase is not _BODY:
            return
        self._phase = _IDLE
        self._fed = 0
        turn = self._reading
        self.listener.bodies.received(self)
        if turn is None:
            super().on_message_complete()
            return
        self._reading = None
        body = self._body
        turn.body = body if type(body) is bytes else bytes(body)
        self._body = b""
        if self._active is None and not self._queue and not self._stalled:
            self._active = turn
            self.listener.endpoint.handle(turn)
        else:
            self._wait(turn)

    # What a turn asks for.

    def finish(self, turn: Turn, data: bytes) -> None:
        """The last bytes of an answer."""
        if self._rounds.running:
            self._rounds.write(self.transport, data)
        else:
            self.transport.write(data)
        turn.connection = turn.on_gone = self._active = None
        if self.listener.streams:
            self.listener.streams.pop(turn, None)
        if self.listener.bodies.bytes:
            self._recount()
        if not turn.keep_alive or self._draining:
            # Whoever did not ask for the end may have sent more already.
            self._hang_up(lingering=turn.refusal is not None or (turn.head.keep_alive and not self._draining))
        elif self._queue or self.flow.read_paused:
            self._advance()

    def write(self, data: bytes) -> None:
        """A piece of an answer that is not its last."""
        self._rounds.write(self.transport, data)

    def begin_stream(self, turn: Turn, headers: bytes) -> None:
        """The first bytes of an event stream."""
        self.listener.streams[turn] = time.monotonic() + self.listener.bounds.keep_alive_s
        self._rounds.write(self.transport, self.listener.stream_head(headers, turn.head.chunked, turn.keep_alive))

    def send(self, turn: Turn, event: bytes) -> bool:
        """An event. A client that lets too many lie unread loses its stream."""
        if self.transport.is_closing():
            return False
        if self.transport.get_write_buffer_size() > self.listener.bounds.stream_bytes:
            self.listener.overrun += 1
            self.transport.abort()
            return False
        chunk = b"%x\r\n%b\r\n" % (len(event), event) if turn.head.chunked else event
        self._rounds.write(self.transport, chunk)
        return True

    # What all connections together ask for.

    def give_way(self) -> None:
        """Others need the room that a body takes which is slow to come."""
        self._refuse(CROWDED)

    # What the server asks for.

    def shutdown(self) -> None:
        """Graceful: what is being answered is answered, then the connection closes."""
        self._draining = True
        if self._active is None:
            self._hang_up()
        else:
            self._active.keep_alive = False

    def sweep(self, now: float) -> None:
        """Close what was waited for too long."""
        unread = self.transport.get_write_buffer_size()
        seen = (self._phase, self._serial, unread)
        if seen != self._seen or (not unread and self._is_serving()):
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
        elif self._phase is _DEAF and waited > bounds.linger_s:
            self.transport.abort()
        elif (self._phase is _HEAD and waited > bounds.head_s) or (self._phase is _BODY and waited > bounds.body_s):
            self.listener.timed_out += 1
            self._refuse(Refusal(408, "the request did not come in time"))

    # uvicorn's own steps, adapted.

    def on_response_complete(self) -> None:
        """The ASGI app has answered. A body that it did not wait for is not read to its end, if that is far."""
        active, self._active = self._active, None
        if isinstance(active, RequestResponseCycle):
            active.body = bytearray()
            self._recount()
        if self._draining:
            self._hang_up()
        elif active is self.cycle and self._phase is _BODY and self._far_from_end():
            self._hang_up(lingering=True)
        elif not self.transport.is_closing():
            self._advance()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._active is None and not self._queue:
            self._active = cycle
            super()._start_asgi_task(cycle, app)
        else:
            self._wait((cycle, app))

    def _unset_keepalive_if_required(self) -> None:
        # No timer is this connection's own: `sweep` is called for all of them.
        pass

    # Steps of ours.

    def _alike(self, start: bytes, data: bytes) -> Known | None:
        """The head of a request that is like the one before it on this connection, and its body's length."""
        template = self._template
        return None if template is None else self.listener.understand(start, partial(template.match, data))

    def _begin_asgi(self, head: dict[bytes, bytes]) -> None:
        super().on_message_begin()
        self.url = self._target
        self.headers.extend(head.items())
        self.expect_100_continue = head.get(b"expect", b"").lower() == b"100-continue"
        self._asgi_bytes = 0
        # The parent must not queue it by itself: the queue here is for both kinds.
        self.cycle = None  # type: ignore[assignment]
        super().on_headers_complete()

    def _far_from_end(self) -> bool:
        """Whether more of the body is to come than is read for the sake of the connection."""
        length = dict(self.headers).get(b"content-length")
        return length is None or int(length) - self._asgi_bytes > self.listener.bounds.early_bytes

    def _on_repeated_header(self, head: dict[bytes, bytes], name: bytes, value: bytes) -> None:
        self._repeats += 1
        combined = guard.combine(name, head[name], value)
        if combined is None:
            self._refuse(Refusal(400, f"the header {name.decode('latin-1')[:64]} may stand only once"))
        elif self._repeats <= self.listener.bounds.header_count:
            head[name] = combined

    def _on_expect(self, expectation: bytes, version: str) -> None:
        if version == "1.0":
            return
        if expectation.lower() != b"100-continue":
            self._refuse(Refusal(417, "the only expectation met here is 100-continue"))
        elif self._active is None and not self._queue:
            self._rounds.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self._owes_continue = True

    def _drop_upgrade(self, head: dict[bytes, bytes], version: str) -> None:
        """Have the request read again without its offer to upgrade, which nobody here takes up.

        The parser ends such a request with its headers; Java's client offers h2c with every first request.
        """
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self._target, version.encode())]
        if b"close" in head.get(b"connection", b"").lower():
            lines.append(b"connection: close")
        dropped = (b"upgrade", b"connection", b"http2-settings")
        lines += [b"%b: %b" % pair for pair in head.items() if pair[0] not in dropped]
        self._without_upgrade = b"\r\n".join(lines) + b"\r\n\r\n"
        self._phase = _IDLE

    def _on_upgrade(self, rest: bytes) -> None:
        if self._phase is _DEAF:
            return
        head, self._without_upgrade = self._without_upgrade, None
        if head is not None:
            self.parser = httptools.HttpRequestParser(self)
            self.take_in(head + rest)

    def _wait(self, waiting: Waiting) -> None:
        """Put a request behind those before it. A client that sends too many ahead is answered those, and no more."""
        if len(self._queue) < self.listener.bounds.pipelined:
            self.flow.pause_reading()
            self._queue.append(waiting)
            self._recount()
            return
        self._phase = _DEAF
        last = self._queue[-1]
        (last if isinstance(last, Turn) else last[0]).keep_alive = False

    def _advance(self) -> None:
        """Answer what waits, as long as answers come at once and the client reads them; then read on."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._queue and self._active is None and not self._stalled:
                waiting = self._queue.popleft()
                if isinstance(waiting, Turn):
                    self._active = waiting
                    self._take(waiting)
                else:
                    self._active = waiting[0]
                    super()._start_asgi_task(*waiting)
        finally:
            self._advancing = False
        if self._queue or self._stalled or self.transport.is_closing():
            return
        if self._owes_continue and self._active is None:
            self._owes_continue = False
            if self._reading is not None:
                self._rounds.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")
        self.flow.resume_reading()

    def _take(self, turn: Turn) -> None:
        refusal = turn.refusal
        if refusal is None:
            self.listener.endpoint.handle(turn)
            return
        body = refusal_body(refusal, self._target, self.listener.is_mcp)
        self.finish(turn, self.listener.render(refusal.status, body, refusal.headers, keep_alive=False))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer this, after what came before it, and hear nothing more."""
        if self._phase is _DEAF:
            return
        self.listener.refused += 1
        unfinished = self._phase is _BODY and self._reading is None and self.cycle is not None
        self._phase = _DEAF
        self._reading = None
        self._head = None
        self._let_go()
        if unfinished and not self._drop_cycle():
            return
        turn = Turn(self, NO_HEAD, keep_alive=False, refusal=refusal)
        if self._active is None and not self._queue:
            self._active = turn
            self._take(turn)
        else:
            self._queue.append(turn)

    def _drop_cycle(self) -> bool:
        """Take back an ASGI request whose body turned out bad. False when its answer has begun: there is no other."""
        cycle = self.cycle
        cycle.disconnected = True
        cycle.message_event.set()
        if self._active is cycle:
            if cycle.response_started:
                self.transport.close()
                return False
            self._active = None
        elif self._queue:
            self._queue.pop()
        return True

    def _let_go(self) -> None:
        """The body is no longer held here."""
        self._body = b""
        self.listener.bodies.release(self)

    def _recount(self) -> None:
        """A request was answered, or waits behind another."""
        size = self._size()
        if self._body or size > self.listener.bounds.early_bytes:
            self.listener.bodies.hold(self, size)
        else:
            self.listener.bodies.release(self)

    def _size(self) -> int:
        """What the requests of this connection hold that are not answered yet."""
        active = self._active
        size = 0
        if active is not None:
            size = len(active.body) if isinstance(active, Turn) else self._asgi_bytes
        waiting = (each if isinstance(each, Turn) else each[0] for each in self._queue)
        return size + len(self._body) + sum(len(each.body) for each in waiting)

    def _is_serving(self) -> bool:
        """Whether it is us, and not the client, that is waited for."""
        active = self._active
        if active is None:
            return False
        return not (active is self.cycle and self._phase is _BODY and not self.flow.read_paused)

    def _lose(self, turn: Turn) -> None:
        self.listener.streams.pop(turn, None)
        turn.connection = None
        gone, turn.on_gone = turn.on_gone, None
        if gone is not None:
            gone()

    def _hang_up(self, lingering: bool = False) -> None:
        """Close once everything is written. A client that still sends gets time to read why (RFC 9112, Tear-down)."""
        self._phase = _DEAF
        self._queue.clear()
        if self.transport.is_closing():
            return
        self._rounds.settle()
        if not lingering or not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # it has gone already, and the loop will say so
            self.transport.abort()
        else:
            self.flow.resume_reading()


def _is_whole(first: bytes | None, head: Head) -> bool:
    """Whether the body came together with its head, so that nothing more has to be read."""
    if first is None or b"transfer-encoding" in head.headers or head.length >= len(first):
        return False
    return first.find(b"\r\n\r\n") + 4 + head.length <= len(first)


def _forsake(cycle: RequestResponseCycle) -> None:
    """Nobody waits for this answer. The app may still hold the request: no part of the connection stays with it."""
    cycle.disconnected = True
    cycle.body = bytearray()
    cycle.on_response = _nothing
    cycle.message_event.set()


def _nothing() -> None:
    pass
