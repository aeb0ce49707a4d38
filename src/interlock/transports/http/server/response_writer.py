"""Writes answers and event streams to one client, and knows whether the client keeps up."""

from __future__ import annotations

import asyncio
import time

from interlock.transports.batching import Batching
from interlock.transports.drain import Drain
from interlock.transports.http.server.event_writer import EventWriter
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.unread_bytes import SlowReader


class ResponseWriter:
    """Writes to one client. Bytes that the client leaves unread count for its connection (`unread_bytes.py`)."""

    __slots__ = ("_batching", "_connection", "_drain", "_events", "_listener", "_transport", "stalled")

    def __init__(
        self, connection: SlowReader, listener: HttpListener, transport: asyncio.Transport, batching: Batching
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._transport = transport
        self._batching = batching
        self._events = EventWriter(asyncio.get_running_loop(), batching)
        self._drain = Drain()
        self.stalled = False
        """Whether the client does not keep up."""

    def write(self, data: bytes) -> None:
        """An answer, or a piece of one."""
        if self._events.waiting:
            self._events.flush(self._transport)
        if self._batching.running:
            self._batching.write(self._transport, data)
        else:
            self._transport.write(data)
        if self.stalled:
            self._count(data)

    def begin_stream(self, request: HttpRequest, headers: bytes) -> None:
        """The first bytes of an event stream."""
        listener = self._listener
        listener.streams[request] = time.monotonic() + listener.bounds.keep_alive_s
        head = listener.stream_head(headers, request.head.chunked, request.keep_alive)
        self._batching.write(self._transport, head)

    def send(self, request: HttpRequest, event: bytes) -> bool:
        """Write an event. A client that leaves too many unread loses its stream."""
        transport = self._transport
        if transport.is_closing():
            return False
        if transport.get_write_buffer_size() > self._listener.bounds.stream_bytes:
            self._listener.count_overrun()
            transport.abort()
            return False
        chunk = b"%x\r\n%b\r\n" % (len(event), event) if request.head.chunked else event
        self._events.write(transport, chunk)
        if self.stalled:
            self._count(chunk)
        return True

    def streams_to(self, request: HttpRequest) -> bool:
        """Whether the answer to this request is an event stream."""
        return request in self._listener.streams

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""
        return self._drain.wait() if self.stalled and not self._transport.is_closing() else None

    def end(self, *, lingering: bool) -> bool:
        """Close once everything is written. With `lingering`, a client that still sends gets time to read why
        (RFC 9112, Tear-down): only this half is closed, and True means that the caller reads the rest."""
        transport = self._transport
        if transport.is_closing():
            return False
        self._batching.settle()
        if not lingering or not transport.can_write_eof():
            transport.close()
            return False
        try:
            transport.write_eof()
        except OSError:  # it has gone already, and the loop will say so
            transport.abort()
            return False
        return True

    def count_unread(self) -> int:
        """Count the bytes that the client has not read yet."""
        unread = self._transport.get_write_buffer_size()
        if unread:
            self._listener.unread.count(self._connection)
        else:
            self._listener.unread.forget(self._connection)
        return unread

    def pause(self) -> None:
        """The client does not keep up."""
        self.stalled = True
        self._listener.unread.count(self._connection)

    def resume(self) -> None:
        """The client has caught up. The next sweep counts the bytes that it has still to read."""
        self.stalled = False
        self._drain.release()

    def close(self) -> None:
        """The client has gone, or another protocol writes to it. The connection is not referred to any more."""
        self.resume()
        self._listener.unread.forget(self._connection)
        del self._connection

    def _count(self, data: bytes) -> None:
        """Count what the client has not read; these bytes are only written at the end of the batch, if one runs."""
        self._listener.unread.count(self._connection, len(data) if self._batching.running else 0)
