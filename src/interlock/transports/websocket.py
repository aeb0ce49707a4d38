"""The server half of one WebSocket, after its upgrade: frames in, frames out, bounded both ways.

`websockets` reads and writes the frames; this class has the I/O. A frame for many peers is made once, by `text_frame`.
A peer that leaves too much unread is disconnected with a reason. Frames that complete no message have a share of the
loop's time (`fairness.py`); beyond it the peer's bytes wait in its own connection, so no peer slows the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic, thread_time
from typing import Final, Protocol

import msgspec
from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from interlock.transports.fairness import Share
from interlock.transports.websocket_frames import Frames, MessageOutcome, is_closing, is_message_end
from interlock.wire.errors import Fault


class WebSocketBounds(msgspec.Struct, frozen=True):
    """Bounds of one WebSocket."""

    message_bytes: int = 1024 * 1024
    """A longer message ends the connection (1009)."""
    unread_bytes: int = 4 * 1024 * 1024
    """Written to the peer and not yet taken by it."""
    ping_s: float = 20.0
    """A peer that was silent for this long gets a ping. After the same time again its connection is closed."""
    linger_s: float = 2.0
    """How long a peer has to read why its connection ends."""


DEFAULT_BOUNDS: Final = WebSocketBounds()

TURN_S: Final = 0.001
"""How much of the loop's time the frames of one peer may take at once."""


class MessageReceiver(Protocol):
    """The reader of one WebSocket's messages."""

    def on_open(self) -> None:
        """The upgrade is answered."""

    def on_frame(self) -> bool:
        """A frame that completes no message is about to be read. False: it stays unread until `resume`."""

    def on_message(self, data: bytes, binary: bool) -> MessageOutcome:
        """Take a whole message. The outcome says whether the connection reads on."""

    def on_unread(self) -> None:
        """The peer left too much unread: the receiver ends the connection."""

    def on_lost(self) -> None:
        """The connection has gone."""


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket of a client."""

    __slots__ = (
        "_answer",
        "_bounds",
        "_closing",
        "_forget",
        "_frames",
        "_parts",
        "_ping_sent_at",
        "_protocol",
        "_receiver",
        "_resting",
        "_seen",
        "_seen_at",
        "_serial",
        "_share",
        "_undelivered",
        "_waiting",
        "transport",
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
        self._protocol = _Protocol(state=State.OPEN, max_size=bounds.message_bytes)
        self._frames = Frames()
        """Bytes that were received and not read yet."""
        self._share = Share()
        self._undelivered: tuple[bytes, bool] | None = None
        """A message that the receiver did not take yet."""
        self._parts: tuple[Opcode, bytearray] | None = None
        """A message of several frames that is not whole yet."""
        self._waiting = False
        """Whether the receiver takes nothing for now."""
        self._resting: asyncio.Handle | None = None
        """Reads on when the peer has a share of the loop again."""
        self._closing = False
        self._serial = 0
        """Grows with every piece of bytes that comes in."""
        self._seen = -1
        self._seen_at = 0.0
        self._ping_sent_at: float | None = None

    # The listener calls these (`http.upgrades.UpgradedConnection`).

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        """Answer the upgrade, and read from now on."""
        self.transport = transport
        self._forget = forget
        transport.set_protocol(self)
        transport.write(self._answer)
        self._answer = b""
        self._receiver.on_open()
        self._frames.feed(rest)
        self._read_on()

    def sweep(self, now: float) -> None:
        """Send a silent peer a ping, and disconnect one that does not answer or does not read."""
        if self._closing:
            self._ping_sent_at = self._ping_sent_at or now
            if now - self._ping_sent_at > self._bounds.linger_s:
                self.transport.abort()
        elif self._serial != self._seen:
            self._seen, self._seen_at, self._ping_sent_at = self._serial, now, None
        elif self._waiting or self._resting is not None:
            # Its answer could not be read. Writing shows whether it is there: a connection that is gone fails.
            if now - self._seen_at > self._bounds.ping_s:
                self._seen_at = now
                self._ping()
        elif self._ping_sent_at is not None:
            if now - self._ping_sent_at > self._bounds.ping_s:
                self.transport.abort()
        elif now - self._seen_at > self._bounds.ping_s:
            self._ping_sent_at = now
            self._ping()

    def shutdown(self) -> None:
        """Close it: the server stops."""
        self.close(CloseCode.GOING_AWAY, "the hub stops")

    # The receiver calls these.

    @property
    def open(self) -> bool:
        """Whether anything that is sent can still arrive."""
        return not self._closing

    def send(self, frames: bytes) -> bool:
        """Send frames of `text_frame`. False for a peer that left too much unread: the caller ends it."""
        if self._closing or self.transport.is_closing():
            return True  # it is about to be lost
        if self.transport.get_write_buffer_size() > self._bounds.unread_bytes:
            return False
        self.transport.write(frames)
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
            self._read_on()

    # The transport calls these.

    def data_received(self, data: bytes) -> None:
        """Bytes in pieces of any size."""
        if self._closing:
            return
        self._serial += 1
        self._frames.feed(data)
        if not self._waiting and self._resting is None:
            self._read_on()

    def eof_received(self) -> bool:
        """The peer sends no more, so the connection ends."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what waits to be read or written, and tell the receiver."""
        self._closing = True
        self._drop()
        self._forget()
        self._receiver.on_lost()

    def _read_on(self) -> None:
        """Read frames until none is left, the receiver waits, or the peer has had its share of this turn."""
        if not self._reads():
            return
        self._resting = None
        rest = self._read_frames()
        if not self._reads():
            return
        if rest is None and not self._waiting:
            self.transport.resume_reading()
            return
        self.transport.pause_reading()
        if rest is not None and not self._waiting:
            loop = asyncio.get_running_loop()
            self._resting = loop.call_later(rest, self._read_on) if rest else loop.call_soon(self._read_on)

    def _reads(self) -> bool:
        return not self._closing and not self.transport.is_closing()

    def _read_frames(self) -> float | None:
        """Read frames. None: no more for now. Otherwise the seconds after which to read on."""
        frames, receiver = self._frames, self._receiver
        began = thread_time()
        ends = began + TURN_S
        if self._undelivered is not None:
            data, binary = self._undelivered
            self._undelivered = None
            taken = self._hand_over(data, binary)
        else:
            taken = MessageOutcome.ACCEPTED
        while not self._closing:
            now = thread_time()
            if taken is not MessageOutcome.ACCEPTED and (rest := self._share.spend(now - began, monotonic())):
                return rest
            if self._waiting:
                return None
            if now > ends:
                return 0.0
            first = frames.first()
            if first is None:
                return None
            if frames.at_start and not is_message_end(first) and not is_closing(first) and not receiver.on_frame():
                self._waiting = True
                return None
            began = now
            taken = self._read_piece(frames.take())
        return None

    def _read_piece(self, piece: bytes) -> MessageOutcome:
        """Read a frame, or the part of it that has arrived. A frame that completes no message counts as refused."""
        protocol = self._protocol
        protocol.receive_data(piece)
        taken = MessageOutcome.REFUSED
        for event in protocol.events_received():
            if isinstance(event, Frame) and (whole := self._whole(event)) is not None:
                taken = self._hand_over(whole[1], whole[0] is Opcode.BINARY)
        if not self._closing:
            if protocol.state is State.OPEN:
                self._write_all()
            else:
                self._end()
        return taken

    def _whole(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        """The message that this frame completes; None for other frames."""
        opcode, data = frame.opcode, frame.data
        if opcode is Opcode.TEXT or opcode is Opcode.BINARY:
            if frame.fin:
                return opcode, bytes(data)
            self._parts = opcode, bytearray(data)
        elif opcode is Opcode.CONT and self._parts is not None:
            first, so_far = self._parts
            so_far += data
            if frame.fin:
                self._parts = None
                return first, bytes(so_far)
        return None

    def _hand_over(self, data: bytes, binary: bool) -> MessageOutcome:
        if not binary and not _is_utf8(data):
            # RFC 6455, Handling Errors in UTF-8-Encoded Data: the connection fails.
            if self._protocol.state is State.OPEN:
                self._protocol.fail(CloseCode.INVALID_DATA, "a text message is not UTF-8")
            return MessageOutcome.REFUSED
        taken = self._receiver.on_message(data, binary)
        if taken is MessageOutcome.LATER and not self._closing:
            self._undelivered = data, binary
            self._waiting = True
        return taken

    def _ping(self) -> None:
        self._protocol.send_ping(b"")
        self._write_all()

    def _write_all(self) -> None:
        """Write the frames of the protocol itself: pongs, pings and closes."""
        for data in self._protocol.data_to_send():
            if not self._closing and self.transport.get_write_buffer_size() > self._bounds.unread_bytes:
                self._receiver.on_unread()
                return
            self._write(data)

    def _write(self, data: bytes) -> None:
        # An empty piece says that the stream ends, which `_end` sees to.
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def _end(self) -> None:
        self._closing = True
        self._write_all()
        self._ping_sent_at = None
        self._drop()
        self._receiver.on_lost()
        # The transport closes once everything is written; `sweep` cuts off a peer that does not read.
        if not self.transport.is_closing():
            self.transport.close()

    def _drop(self) -> None:
        """Drop all bytes that were received."""
        self._undelivered = self._parts = None
        self._frames = Frames()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None


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


class _Protocol(ServerProtocol):
    """`websockets` as the server half, which also takes a close between the fragments of a message."""

    def recv_frame(self, frame: Frame) -> None:
        """Judge a frame. RFC 6455, Fragmentation: control frames, so also a close, may stand between fragments."""
        if frame.opcode is Opcode.CLOSE:
            self.current_size = None
        super().recv_frame(frame)


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
