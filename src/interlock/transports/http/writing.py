"""The writing half of one client connection: answers, event streams, and whether the client keeps up."""

from __future__ import annotations

import asyncio
import time

import httptools

from interlock.transports.batching import Batching
from interlock.transports.drain import Drain
from interlock.transports.http.asgi import AsgiRequest
from interlock.transports.http.asgi_application import AsgiApplication
from interlock.transports.http.event_writer import EventWriter
from interlock.transports.http.http_request import HttpRequest
from interlock.transports.http.listener import HttpListener
from interlock.transports.http.read_flow import ReadFlow


class WritingConnection(asyncio.Protocol):
    """Writes to one client."""

    transport: asyncio.Transport
    flow: ReadFlow

    def __init__(self, listener: HttpListener, application: AsgiApplication) -> None:
        self.listener = listener
        self.loop = asyncio.get_running_loop()
        self.parser = httptools.HttpRequestParser(self)
        # A client may send more behind a request with `connection: close`; that request is answered all the same.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.client: tuple[str, int] | None = None
        """The address of the client."""
        self._application = application
        self._batching = Batching.of(self.loop)
        self._events = EventWriter(self.loop, self._batching)
        self._active: HttpRequest | AsgiRequest | None = None
        """The request that is being answered."""
        self._stalled = False
        """Whether the client does not keep up."""
        self._drain = Drain()
        self._last_owner = ""
        """`HttpRequest.owner` of the last request that was answered here."""

    @property
    def owner(self) -> str:
        """The caller that the endpoint admitted, or the client's address (`unread_bytes.SlowReader`)."""
        active = self._active
        owner = self._last_owner
        if active is not None:
            owner = active.owner if isinstance(active, HttpRequest) else ""
        if owner:
            return f"caller {owner}"
        return "address" if self.client is None else f"address {self.client[0]}"

    @property
    def unread_bytes(self) -> int:
        """The bytes that were written and not read by the client (`unread_bytes.SlowReader`)."""
        return self.transport.get_write_buffer_size()

    def give_up(self) -> None:
        """End the connection at once, with all that is unread."""
        self.transport.abort()

    # The transport calls these.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        self.transport = transport
        self.flow = ReadFlow(transport)
        peer = transport.get_extra_info("peername")
        self.client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) > 1 else None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._drain.release()
        self.listener.unread.forget(self)
        self.parser = None  # type: ignore[assignment]
        if exc is None:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self._stalled = True
        self.listener.unread.count(self)

    def resume_writing(self) -> None:
        """The client has caught up. The next sweep counts the bytes that it has still to read."""
        self._stalled = False
        self._drain.release()

    # A request calls these (`http_request.Connection`).

    def write(self, data: bytes) -> None:
        """A piece of an answer that is not its last."""
        self._batching.write(self.transport, data)
        if self._stalled:
            self.listener.unread.count(self, self._following(data))

    def begin_stream(self, http: HttpRequest, headers: bytes) -> None:
        """The first bytes of an event stream."""
        self.listener.streams[http] = time.monotonic() + self.listener.bounds.keep_alive_s
        self._batching.write(self.transport, self.listener.stream_head(headers, http.head.chunked, http.keep_alive))

    def send(self, http: HttpRequest, event: bytes) -> bool:
        """An event. A client that lets too many lie unread loses its stream."""
        if self.transport.is_closing():
            return False
        if self.transport.get_write_buffer_size() > self.listener.bounds.stream_bytes:
            self.listener.overrun += 1
            self.transport.abort()
            return False
        chunk = b"%x\r\n%b\r\n" % (len(event), event) if http.head.chunked else event
        self._events.write(self.transport, chunk)
        if self._stalled:
            self.listener.unread.count(self, self._following(chunk))
        return True

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""
        return self._drain.wait() if self._stalled and not self.transport.is_closing() else None

    def streams_to(self, http: HttpRequest) -> bool:
        """Whether the answer to this request is an event stream."""
        return http in self.listener.streams

    def _following(self, data: bytes) -> int:
        """How many of these bytes are only written at the end of the batch."""
        return len(data) if self._batching.running else 0

    def _lose(self, http: HttpRequest) -> None:
        self.listener.streams.pop(http, None)
        http.connection = None
        gone, http.on_gone = http.on_gone, None
        http.on_stop = None
        if gone is not None:
            gone()
