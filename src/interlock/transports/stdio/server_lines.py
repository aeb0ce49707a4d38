"""Reads the lines that a server process writes to its stdout, bounded for any behaviour of the server.

A server that sends many messages without a request is read more slowly, so that it never takes more than its share of
the loop. A flood of lines that are no messages ends the server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from time import thread_time
from typing import Final, Protocol

from interlock.protocols.mcp.answers import plain_answer
from interlock.protocols.mcpl.live import unread_delivery
from interlock.transports.fairness import FIRST_S, Share
from interlock.transports.large_reading import LargeReading
from interlock.transports.one_stream import Waiter
from interlock.transports.stdio.unreadable_lines import LineSource, UnreadableLines
from interlock.wire.conversation import RpcConversation
from interlock.wire.errors import Fault, internal_error
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Message, Notification, Request, decode, decode_batch, is_batch
from interlock.wire.ndjson import SLICE, LineReader, OversizeLine

TURN_S: Final = 0.001
"""How much of the loop's time a server's lines may take at once."""

BAD_LINES: Final = 1_000
"""More lines than this in a row that are no messages count as a flood."""
BAD_BYTES: Final = 10 * 1024 * 1024
"""This many bytes in a row without one message count as a flood."""
LONG_LINES: Final = 8
"""A line this many times over the limit counts as endless. The request that it answers fails as soon as the line is
over the limit; other requests to this server continue."""


class MessageTaker(LineSource, Protocol):
    """The link that takes the messages."""

    gone: bool
    """Whether the link has been given up: nothing more is read."""

    def take(self, message: Message) -> bool:
        """Take a message. Returns whether somebody waited for it."""

    def give_up(self, fault: Fault) -> None:
        """End the server."""

    def read(self, *, on: bool) -> None:
        """Read the server's stdout, or leave its output in the pipe."""

    def large_read(self) -> None:
        """A large message was read, and no line waits behind it."""


class ServerLines:
    """Reads the lines of one server (`batching.Receiver`)."""

    def __init__(self, link: MessageTaker, conversation: RpcConversation[Waiter, None], limits: Limits) -> None:
        self._link = link
        self._waiting = conversation.waiting
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._lines = LineReader(limits.message_bytes)
        self._unreadable = UnreadableLines(link, limits.message_bytes)
        self._share = Share()
        self._bad_lines = 0
        """Lines in a row that are no messages."""
        self._bad_bytes = 0
        """Bytes in a row without one message."""
        self._max_bad_bytes = max(BAD_BYTES, limits.message_bytes * 5 // 4)
        self._unasked = False
        """Whether the last message answered no request."""
        self._later: deque[tuple[Iterator[bytes | OversizeLine] | None, bytes]] = deque()
        """Pieces of bytes that are not read yet, while the server rests. Of a piece that is read in part, its lines."""
        self.reading = False
        """Whether a large message is being read; the lines behind it wait."""
        self.paused = False
        """Whether reading is paused because no receiver takes more."""
        self.exited = False
        """Whether the server has exited: its last lines are read without a rest."""

    # When lines are read.

    def take_in(self, data: bytes) -> None:
        """Take the lines that these bytes complete."""
        if self._link.gone:
            return
        if self._later or self.paused:
            self._later.append((None, data))
            self._link.read(on=False)
        else:
            self._take_lines(data)

    def give_up(self) -> None:
        """End the server."""
        self._link.give_up(internal_error())

    def finish(self) -> None:
        """The server has exited: read what it wrote last."""
        was_paused = self.paused
        self.exited = True
        self.paused = False
        if self._later:
            self._go_on()
        elif was_paused and not self.reading:
            self._link.read(on=True)

    def hold(self, *, on: bool) -> None:
        """Pause reading the server's lines, or resume it."""
        if on is self.paused or self.exited:
            return
        self.paused = on
        if on:
            self._link.read(on=False)
        elif self._later:
            self._loop.call_soon(self._go_on)
        else:
            self._link.read(on=True)

    def _go_on(self) -> None:
        """Take the lines that waited."""
        if self.reading or self.paused or not self._later:
            return
        while self._later and not self._link.gone:
            lines, data = self._later.popleft()
            if not self._take_lines(data, lines):
                return  # the server rests again
        self._later.clear()
        self._link.read(on=True)

    def _take_lines(self, data: bytes, lines: Iterator[bytes | OversizeLine] | None = None) -> bool:
        """Take the lines of a piece, or the rest of them: until one is large, or the server has had its share of the
        loop. False where some are left."""
        link, waiting = self._link, self._waiting
        if lines is None:
            lines = iter(self._lines.feed(data)) if len(data) <= SLICE else self._lines.slices(data)
        blank_bytes = self._lines.blank_bytes
        began: float | None = None
        ends = thread_time() + TURN_S
        for line in lines:
            if self._lines.blank_bytes != blank_bytes:
                # Blank lines count as messages without a request.
                blank_bytes, self._unasked = self._lines.blank_bytes, True
            try:
                answer = plain_answer(line) if line and type(line) is bytes else None
                waiter = None if answer is None else waiting.pop(answer.id, None)
                if answer is not None and waiter is not None:
                    self._bad_lines = self._bad_bytes = 0
                    waiter[0].sink.on_response(answer)
                elif line and not self._take_other(line, lines, data):
                    return False
            except Exception as cause:  # a failing receiver must not cost the next message
                self._report(cause)
            if self._bad_lines > BAD_LINES:
                break  # one read can hold many thousands more, and everyone else would wait for them
            if self._unasked:
                self._unasked = False
                now = thread_time()
                rest_s = self._share.spend(FIRST_S if began is None else now - began, self._loop.time())
                began = now
            else:
                rest_s, began = 0.0, None
            if self.paused or ((rest_s or thread_time() > ends) and not link.gone and not self.exited):
                self._rest(lines, data, rest_s)
                return False
        self._bad_bytes += len(data)
        if self._lines.skipping or self._bad_bytes > self._max_bad_bytes or self._bad_lines > BAD_LINES:
            self._check_flood()
        return True

    def _rest(self, lines: Iterator[bytes | OversizeLine], data: bytes, seconds: float) -> None:
        """Leave lines for later. `hold` continues a paused server."""
        self._later.appendleft((lines, data))
        self._link.read(on=False)
        if not self.paused:
            self._loop.call_later(seconds, self._go_on)

    def _check_flood(self) -> None:
        """End a server that has sent too much without a message."""
        max_bytes = self._max_bad_bytes
        if self._lines.skipping:
            self._unreadable.on_unfinished(self._lines.head)
            max_bytes = LONG_LINES * self._limits.message_bytes
        if self._bad_bytes > max_bytes or self._bad_lines > BAD_LINES:
            self._link.give_up(Fault("UPSTREAM_ERROR", "the server floods its stdout with lines that are not messages"))

    # Lines other than plain answers. `_take_lines` hands those over itself: most lines are plain answers.

    def _take_other(self, line: bytes | OversizeLine, lines: Iterator[bytes | OversizeLine], data: bytes) -> bool:
        """Take a line that is no plain answer. False where the lines behind it wait until it is read."""
        if isinstance(line, OversizeLine):
            self._bad_lines, self._bad_bytes = self._bad_lines + 1, 0
            self._unreadable.on_oversize(line.head)
            return True
        if len(line) > LARGE:
            self._read_large(line, lines, data)
            return False
        try:
            outcome: Outcome = decode_batch(line, self._limits) if is_batch(line) else decode(line, self._limits)
        except BadMessage as bad:
            outcome = bad
        self._take(line, outcome)
        return True

    def _read_large(self, line: bytes, lines: Iterator[bytes | OversizeLine], data: bytes) -> None:
        """Have a large message read beside the loop. The lines behind it wait."""

        def read(outcome: Outcome) -> None:
            self.reading = False
            if not self._link.gone:
                self._take(line, outcome)
            self._go_on()
            if not self._later:
                self._link.large_read()

        self._later.appendleft((lines, data))
        self.reading = True
        self._link.read(on=False)
        LargeReading.here().read(self._link, line, self._limits, self._limits.answer_members, read)

    def _take(self, line: bytes, outcome: Outcome) -> None:
        """Hand over the message of a line, or those of a batch (revision 2025-03-26)."""
        for message in outcome if isinstance(outcome, list) else (outcome,):
            try:
                if isinstance(message, BadMessage):
                    self._bad_lines += 1
                    if self._unreadable.on_bad(line, message):
                        self._bad_bytes = 0  # one bad answer, however long, is no flood
                    if (delivery := unread_delivery(message, message.part or line)) is not None:
                        self._link.take(delivery)
                    continue
                self._bad_lines = self._bad_bytes = 0
                self._unasked = isinstance(message, Notification | Request)
                if self._link.take(message):
                    self._unasked = False
            except Exception as cause:  # a failing receiver must not cost the next message
                self._report(cause)

    def _report(self, cause: Exception) -> None:
        self._loop.call_exception_handler({"message": "a message could not be handed over", "exception": cause})
