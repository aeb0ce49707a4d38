"""The server half of one WebSocket, after its upgrade: frames in, frames out, bounded both ways.

`websockets` reads and writes the frames; this class has the I/O. A frame for many is made once, by `text_frame`. A peer
that leaves too much unread is told why and cut off, so that it never slows those beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from interlock.wire.errors import Fault


class WebSocketBounds(msgspec.Struct, frozen=True):
    """Bounds of one WebSocket."""

    message_bytes: int = 1024 * 1024
    """A longer message ends the connection (1009)."""
    unread_bytes: int = 4 * 1024 * 1024
    """Written to the peer and not yet taken by it."""
    ping_s: float = 20.0
    """A peer that was silent for so long is asked whether it is still there; after as long again it is gone."""
    linger_s: float = 2.0
    """How long a peer has to read why its connection ends."""


DEFAULT_BOUNDS: Final = WebSocketBounds()


class MessageReceiver(Protocol):
    """The reader of one WebSocket's messages."""

    def on_open(self) -> None:
        """The upgrade is answered."""

    def on_message(self, data: bytes, binary: bool) -> bool:
        """A message. False: not taken; nothing more is read until `resume`."""

    def on_lost(self) -> None:
        """The connection has gone."""


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket of a client."""

    __slots__ = (
        "_answer", "_asked_at", "_bounds", "_closing", "_forget", "_inbox", "_parts", "_protocol", "_receiver", "_seen",
        "_seen_at", "_serial", "_waiting", "transport",
    )  # fmt: skip

    def __init__(
        self,
        answer: bytes,
        receiver: MessageReceiver,
        bounds: WebSocketBounds = DEFAULT_BOUNDS,
    ) -> None:
        self.transport: asyncio.Transport
        self._answer = answer
        self._receiver = receiver
        self._forget: Callable[[], None] = _nothing
        self._bounds = bounds
        self._protocol = ServerProtocol(state=State.OPEN, max_size=bounds.message_bytes)
        self._inbox: deque[tuple[bytes, bool]] | None = None
        """Messages that the receiver has not taken yet."""
        self._parts: tuple[Opcode, bytearray] | None = None
        """A message of several frames that is not whole yet."""
        self._waiting = False
        self._closing = False
        self._serial = 0
        """Grows with every piece of bytes that comes in."""
        self._seen = -1
        self._seen_at = 0.0
        self._asked_at: float | None = None

    # The listener calls these (`http.upgrades.UpgradedConnection`).

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        """Answer the upgrade, and read from now on."""
        self.transport = transport
        self._forget = forget
        transport.set_protocol(self)
        transport.write(self._answer)
        self._answer = b""
        self._receiver.on_open()
        if rest:
            self.data_received(rest)
        transport.resume_reading()

    def sweep(self, now: float) -> None:
        """Ask a silent peer whether it is there, and end one that does not answer or does not read."""
        if self._closing:
            self._asked_at = self._asked_at or now
            if now - self._asked_at > self._bounds.linger_s:
                self.transport.abort()
        elif self._serial != self._seen or self._waiting:
            self._seen, self._seen_at, self._asked_at = self._serial, now, None
        elif self._asked_at is not None:
            if now - self._asked_at > self._bounds.ping_s:
                self.transport.abort()
        elif now - self._seen_at > self._bounds.ping_s:
            self._asked_at = now
            self._protocol.send_ping(b"")
            self._write_all()

    def shutdown(self) -> None:
        """Close it: the server stops."""
        self.close(CloseCode.GOING_AWAY, "the hub stops")

    # The receiver calls these.

    @property
    def open(self) -> bool:
        """Whether anything that is sent can still arrive."""
        return not self._closing

    def send(self, frame: bytes) -> bool:
        """Send a frame of `text_frame`. False for a peer that left too much unread: the caller ends it."""
        if self._closing or self.transport.is_closing():
            return True  # it is about to be lost
        if self.transport.get_write_buffer_size() > self._bounds.unread_bytes:
            return False
        self.transport.write(frame)
        return True

    def close(self, code: int, reason: str, last: bytes = b"") -> None:
        """End the connection. `last` is one more frame that the peer can read before."""
        if self._closing:
            return
        if last:
            self.transport.write(last)
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
        self._end()

    def resume(self) -> None:
        """The receiver takes messages again."""
        if self._waiting:
            self._waiting = False
            self._hand_over()
            if not self._waiting and not self.transport.is_closing():
                self.transport.resume_reading()

    # The transport calls these.

    def data_received(self, data: bytes) -> None:
        """Bytes in pieces of any size."""
        if self._closing:
            return
        self._serial += 1
        protocol = self._protocol
        protocol.receive_data(data)
        replies = deque(protocol.data_to_send())
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._on_frame(event)
                if event.opcode is Opcode.PING and replies:
                    # Its pong goes out in its place: after answers to messages before it, before those behind it.
                    self._take_inbox()
                    if self._closing:
                        return
                    self._write(replies.popleft())
        self._take_inbox()
        if self._closing:
            return
        for reply in replies:
            self._write(reply)
        if protocol.state is State.OPEN:
            self._write_all()
        else:
            self._end()

    def eof_received(self) -> bool:
        """The peer sends no more, so the connection ends."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._closing = True
        self._inbox = self._parts = None
        self._forget()
        self._receiver.on_lost()

    def _on_frame(self, frame: Frame) -> None:
        opcode, data = frame.opcode, frame.data
        if opcode is Opcode.TEXT or opcode is Opcode.BINARY:
            if frame.fin:
                self._on_whole(opcode, bytes(data))
            else:
                self._parts = opcode, bytearray(data)
        elif opcode is Opcode.CONT and self._parts is not None:
            first, so_far = self._parts
            so_far += data
            if frame.fin:
                self._parts = None
                self._on_whole(first, bytes(so_far))

    def _on_whole(self, opcode: Opcode, data: bytes) -> None:
        if opcode is Opcode.TEXT and not _is_utf8(data):
            # RFC 6455, Handling Errors in UTF-8-Encoded Data: the connection fails.
            if self._protocol.state is State.OPEN:
                self._protocol.fail(CloseCode.INVALID_DATA, "a text message is not UTF-8")
            return
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append((data, opcode is Opcode.BINARY))

    def _hand_over(self) -> None:
        inbox = self._inbox
        while inbox and not self._waiting:
            data, binary = inbox[0]
            if not self._receiver.on_message(data, binary):
                self._waiting = True
                if not self._closing:
                    self.transport.pause_reading()
                return
            if inbox:
                inbox.popleft()
        if not inbox:
            self._inbox = None

    def _take_inbox(self) -> None:
        if self._inbox and not self._waiting:
            self._hand_over()

    def _write_all(self) -> None:
        for data in self._protocol.data_to_send():
            self._write(data)

    def _write(self, data: bytes) -> None:
        # An empty piece says that the stream ends, which `_end` sees to.
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def _end(self) -> None:
        self._write_all()
        self._closing = True
        self._asked_at = None
        self._inbox = self._parts = None
        self._receiver.on_lost()
        # The transport closes once everything is written; `sweep` cuts off a peer that does not read.
        if not self.transport.is_closing():
            self.transport.close()


def accept(target: bytes, headers: Mapping[bytes, bytes], subprotocol: str | None) -> bytes:
    """The answer to a handshake (RFC 6455, Opening Handshake). Raises INVALID_REQUEST, saying what is wrong with it."""
    given = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.items()])
    offered = given.pop("Sec-WebSocket-Protocol", None)
    handshake = ServerProtocol()
    response = handshake.accept(Request(target.decode("latin-1"), given))
    if response.status_code != 101:
        why = str(handshake.handshake_exc or response.reason_phrase)
        raise Fault("INVALID_REQUEST", f"not a WebSocket handshake: {why}", hint="connect with a WebSocket client")
    if offered is not None and subprotocol is not None:
        response.headers["Sec-WebSocket-Protocol"] = subprotocol
    return response.serialize()


def text_frame(data: bytes) -> bytes:
    """A message as a frame, which is the same for every peer of a server."""
    return Frame(Opcode.TEXT, data).serialize(mask=False)


def text_of(frame: bytes) -> bytes:
    """The message in a frame of `text_frame`."""
    # RFC 6455, Base Framing Protocol: 126 and 127 say that 2 or 8 bytes with the length follow.
    return frame[{126: 4, 127: 10}.get(frame[1], 2) :]


def _nothing() -> None:
    pass


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
