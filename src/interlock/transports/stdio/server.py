"""The server half over a pair of byte streams: standard input and output, or one socket.

Reads lines and writes messages, fairly and bounded. `client_messages.py` knows what the messages mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic, thread_time
from typing import Final, cast

from interlock.transports.batching import Batching
from interlock.transports.drain import Drain
from interlock.transports.exchange import AdmittedCaller, Service
from interlock.transports.large_reading import LargeReading
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.sessions.session import SessionEnd
from interlock.transports.stdio.client_messages import ClientMessages
from interlock.transports.unread_bytes import UnreadBytes
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import DEFAULT, Limits, over_message_bytes
from interlock.wire.messages import plain_request
from interlock.wire.ndjson import SLICE, LineReader, OversizeLine

HELD_BYTES: Final = 1024 * 1024
"""Unread bytes of a client above which notifications are dropped. Answers are dropped only with the connection
(`unread_bytes.py`)."""

DRAIN_BYTES: Final = 64 * 1024
"""More unwritten bytes than this are written at once, to see whether the client keeps up."""

TURN_S: Final = 0.001
"""How much of the loop's time a client's lines may take at once."""

HALF_CLOSED_S: Final = 2.0
"""How long requests under way may still take after the client has closed its end."""
UNREAD_S: Final = 2.0
"""How long the client of a closed stream may read nothing before the rest of its answers is dropped."""


class StdioServer(asyncio.Protocol):
    """One client on one stream. As a protocol it reads; it writes to the same transport, or to another one."""

    def __init__(
        self,
        service: Service,
        caller: AdmittedCaller,
        *,
        limits: Limits = DEFAULT,
        admit: Callable[[bytes], AdmittedCaller] | None = None,
        transport: str = "stdio",
        unread: UnreadBytes | None = None,
        open_bytes: RequestBytes | None = None,
        sender: str = "",
    ) -> None:
        """`admit` reads the credential that a request may bring beside its method. Streams that share `unread` share
        its bound for unread bytes; those that share `open_bytes`, its bound for open requests. Open requests count for
        `sender`, or for the caller of each request where `sender` is empty."""
        self.peer = caller.principal_name
        self.client: tuple[str, int] | None = None
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._batching = Batching.of(self._loop)
        self.data_received = partial(self._batching.received, self)  # type: ignore[method-assign]
        """Bytes in pieces of any size. `take_in` gets them in their turn; `close` removes the reference."""
        self._lines = LineReader(limits.message_bytes)
        counts = RequestBytes() if open_bytes is None else open_bytes
        self._messages = ClientMessages(self, service, caller, limits, admit, transport, counts, sender)
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._two_pipes = False
        self._out: list[bytes] = []
        self._buffered_bytes = 0
        self._full = False
        self._unread = UnreadBytes() if unread is None else unread
        self._drain = Drain()
        self._flushing = False
        self._pieces: deque[bytes | Iterator[bytes | OversizeLine]] = deque()
        """Received pieces, and of a piece that is read in part its lines. They wait for a large line before them, or
        for the next turn of the loop. Reading is paused while any wait."""
        self._reading = False
        """Whether a large line is being read."""
        self._on_read: Callable[[], None] | None = None
        """Called once that line is read, so that its sender can free it."""
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._last_answers: asyncio.TimerHandle | None = None
        self.draining = False
        """Whether the client sends no more, and the stream closes with the last answer."""

    # The reading transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By what it can do, not by its class: other loops have transports of their own.
        self._reader = cast("asyncio.ReadTransport", transport)
        if self._writer is None:
            self._writer = cast("asyncio.WriteTransport", transport)

    def eof_received(self) -> bool:
        """No more requests will come. Those under way get a moment to be answered."""
        self._batching.settle()
        if not self.busy:
            self.close()
            return False
        self.draining = True
        if self._last_answers is None:
            self._last_answers = self._loop.call_later(HALF_CLOSED_S, self.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._batching.settle()
        if not self._two_pipes:
            self._writer = None
            self.close()
            self._unread.forget(self)
            if self._last_answers is not None:
                self._last_answers.cancel()
        # A pipe that was read to its end is lost at once; answers go out on another one.
        elif exc is not None or not self.draining:
            self.close()

    # The writing transport calls these; on a socket it is the same one.

    def pause_writing(self) -> None:
        self._full = True
        self._unread.count(self)
        self._read(on=False)

    def resume_writing(self) -> None:
        self._full = False
        self._unread.forget(self)
        self._flush()
        if not self._full:
            self._drain.release()
        if self._pieces:
            self._go_on()
        elif not self._full:
            self._read(on=True)

    def write_to(self, writer: asyncio.WriteTransport) -> None:
        """Answer on another transport than the one that is read."""
        self._writer = writer
        self._two_pipes = True

    def end(self, end: SessionEnd) -> None:
        """Answer the requests under way with this end, and close the stream."""
        self._messages.end(end)

    def close(self) -> None:
        """End the conversation: work under way is cancelled, nothing more is sent."""
        if self._closed.done():
            return
        self._flush()
        self._closed.set_result(None)
        if self._last_answers is not None:
            self._last_answers.cancel()
        self._messages.close()
        self._drain.release()
        self._pieces.clear()
        for transport in (self._writer, self._reader):
            if transport is not None:
                transport.close()
        self.__dict__.pop("data_received", None)
        if self._two_pipes:
            self._unread.forget(self)
        elif self._writer is not None and self.unread_bytes:
            self._await_reader(self.unread_bytes)

    @property
    def greeted(self) -> bool:
        """Whether a session was opened."""
        return self._messages.greeted

    @property
    def busy(self) -> bool:
        """Whether requests are under way, or lines wait."""
        return bool(self._messages.owed or self._pieces)

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the conversation is over."""
        self._closed.add_done_callback(lambda _: callback())

    async def wait_closed(self) -> None:
        """Until the other side has gone, or `close`."""
        await asyncio.shield(self._closed)

    # Reading. The loop's batches call the first two (`batching.Receiver`).

    def take_in(self, data: bytes) -> None:
        """Take the lines that these bytes complete."""
        if self._closed.done():
            return
        channel = self._messages.channel
        if channel is not None:
            channel.last_used = monotonic()
        self._pieces.append(data)
        if len(self._pieces) > 1:
            return
        if data.find(b"\n") != len(data) - 1:
            # Several lines: servers get their calls together.
            self._batching.together(self._take_lines)
        else:
            self._take_lines()

    def give_up(self) -> None:
        """End the connection at once, with all that is unread."""
        self._out.clear()
        self._buffered_bytes = 0
        if self._writer is not None:
            self._writer.abort()
        self._loop.call_soon(self.close)  # a request may be sending its answer just now

    def take_whole(self, message: bytes, on_read: Callable[[], None]) -> None:
        """Take a message that came by itself, after those before it were taken. It may hold line breaks. `on_read` is
        called before a large one is served."""
        if self._closed.done():
            return
        channel = self._messages.channel
        if channel is not None:
            channel.last_used = monotonic()
        self._pieces.append(iter((message,)))
        self._on_read = on_read
        if len(self._pieces) == 1:
            self._take_lines()

    def _take_lines(self) -> None:
        """Take the lines that wait: until one is large, or the client has had its share of this turn of the loop.
        Answers that come at once leave in one write."""
        limits, messages, owed, pieces = self._limits, self._messages, self._messages.owed, self._pieces
        ends = thread_time() + TURN_S
        self._flushing = True
        try:
            while pieces:
                piece = pieces[0]
                if isinstance(piece, bytes):
                    lines = self._lines
                    piece = iter(lines.feed(piece)) if len(piece) <= SLICE else lines.slices(piece)
                    pieces[0] = piece
                for line in piece:
                    if isinstance(line, OversizeLine):
                        reason = over_message_bytes("a line", limits.message_bytes)
                        id_ = None if line.id in owed else line.id
                        messages.refuse(id_, Fault("TOO_LARGE", reason, hint="send less in one message"))
                    elif len(line) > LARGE:
                        self._reading = True
                        self._read(on=False)
                        LargeReading.here().read(self.peer, line, limits, limits.members, self._read_large)
                        return
                    elif line:
                        request = plain_request(line) if len(line) <= limits.message_bytes else None
                        if request is None or request.id in owed or len(owed) >= limits.pending:
                            messages.take(line)
                        else:
                            owed[request.id] = None
                            messages.serve(request)
                    if self._closed.done():
                        return
                    if self._full or thread_time() > ends:
                        self._read(on=False)
                        if not self._full:
                            self._loop.call_soon(self._go_on)
                        return
                pieces.popleft()
        except Exception:
            self.close()  # a defect of ours: the other lines would fail too
            raise
        finally:
            self._flushing = False
            if self._out and not self._full:
                self._flush()

    def _go_on(self) -> None:
        """Take the lines that waited."""
        if self._reading or self._full or not self._pieces:
            return
        self._batching.together(self._take_lines)
        if self._pieces or self._closed.done():
            return
        if not self.draining:
            self._read(on=True)
        elif not self.busy:
            self.close()

    def _read_large(self, outcome: Outcome) -> None:
        self._reading = False
        on_read, self._on_read = self._on_read, None
        if not self._closed.done():
            if on_read is not None:
                on_read()
            self._messages.take_large(outcome)
            self._go_on()

    def _read(self, *, on: bool) -> None:
        reader = self._reader
        if reader is None or reader.is_closing():
            return
        if on:
            reader.resume_reading()
        else:
            reader.pause_reading()

    def _await_reader(self, before: int) -> None:
        """Count the bytes that a closed socket keeps for its client, and drop them once the client reads no more."""
        self._unread.count(self)
        self._last_answers = self._loop.call_later(UNREAD_S, self._look_at_reader, before)

    def _look_at_reader(self, before: int) -> None:
        unread = self.unread_bytes
        if unread < before:
            self._await_reader(unread)
        elif self._writer is not None:
            self._writer.abort()

    # Writing (`client_messages.Stream`).

    def send(self, message: bytes) -> None:
        """Queue one message; all of a loop turn leave in one write."""
        if self._closed.done():
            return
        self._out.append(message)
        self._buffered_bytes += len(message)
        if not self._flushing and not self._full:
            self._flushing = True
            self._loop.call_soon(self._flush)
        elif self._full:
            self._unread.count(self)

    def offer(self, message: bytes) -> None:
        """Send a message, unless the client is not keeping up."""
        if self._buffered_bytes >= HELD_BYTES and not self._full:
            self._flush()
        if self._buffered_bytes < HELD_BYTES:
            self.send(message)

    @property
    def unread_bytes(self) -> int:
        """The bytes that were sent and not read by the client (`unread_bytes.SlowReader`)."""
        writer = self._writer
        written = 0 if writer is None else writer.get_write_buffer_size()
        return written + self._buffered_bytes

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""
        if self._closed.done() or not (self._full or self._buffered_bytes > DRAIN_BYTES):
            return None
        if not self._full:
            self._flush()
        return self._drain.wait() if self._full else None

    def all_answered(self) -> None:
        """Close the stream of a client that sends no more, once no line of it waits."""
        if not self._pieces:
            self._loop.call_soon(self.close)

    def _flush(self) -> None:
        self._flushing = False
        if not self._out or self._writer is None or self._writer.is_closing():
            return
        self._out.append(b"")
        data = b"\n".join(self._out)
        self._out.clear()
        self._buffered_bytes = 0
        self._writer.write(data)
