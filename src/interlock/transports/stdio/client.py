"""The client half of stdio: a `Link` to a server that is a process of ours.

All requests share one stream each way. A server that misbehaves on it is reported and, when it floods with rubbish,
ended; one that says much that nobody asked for is read more slowly. It never takes more than bounded memory, and no
request outlives its deadline.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from time import thread_time
from typing import Final

import msgspec

from interlock.protocols.mcp.answers import plain_answer
from interlock.protocols.mcp.meta import SUBSCRIPTION_ID, members, names_method
from interlock.transports.batching import Batching
from interlock.transports.fairness import FIRST_S, Share
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Listener, Outgoing, Sink
from interlock.transports.one_stream import OneStreamLink, Waiter
from interlock.transports.stdio.process import STDIN, STDOUT, Command, ServerProcess
from interlock.transports.stdio.stderr_lines import StderrLines, printable
from interlock.wire.conversation import CANCELLED
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    EMPTY_OBJECT,
    BadMessage,
    Failure,
    Id,
    Message,
    Notification,
    Request,
    Result,
    decode,
    decode_batch,
    encode_failure,
    is_batch,
)
from interlock.wire.names import may_spell
from interlock.wire.ndjson import LineReader, Oversize

HUNG_UP: Final = 1.0
"""Seconds between a closed stream and the end, in which a server that is exiting can exit."""

WRITE_BYTES: Final = 16 * 1024 * 1024
"""What may wait for the server to read it. Beyond, requests are refused; at twice that, the server is ended."""

TURN_S: Final = 0.001
"""What a server's lines may take of the loop's time at once."""

BAD_LINES: Final = 1_000
BAD_BYTES: Final = 10 * 1024 * 1024
"""How much rubbish in a row, without one message in it, is a flood."""
LONG_LINES: Final = 8
"""A line may be so many times too long before it counts as one without an end. Its answer fails as soon as it is too
long; whoever else waits for this server does not pay for it."""

_ID_IN_HEAD = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b')


class StdioLink(OneStreamLink):
    """A connection to a server over its standard streams.

    Complaints are of kind `line`, `oversize`, `stray` and `refused`.
    """

    says = "stdout"

    def __init__(self, listener: Listener, limits: Limits = DEFAULT, write_limit: int = WRITE_BYTES) -> None:
        super().__init__(listener, limits)
        self._write_limit = write_limit
        self._rounds = Batching.of(self._loop)
        self._subscriptions: dict[Id, Waiter] = {}
        self._lines = LineReader(limits.message_bytes)
        self._head = b""
        self._stderr = StderrLines()
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._asked_last = 0
        self._sent_last = 0
        self._full = False
        self._bad_lines = 0
        self._bad_bytes = 0
        self._share = Share()
        self._unasked = False
        self._exited = False
        self._later: tuple[Iterator[bytes | Oversize], bytes] | None = None
        """What was read and is not gone through yet, while the server rests."""
        self._reading = False
        """Whether a large message is being read; what came behind it waits."""
        self._ended: Callable[[], None] | None = None
        """To be done once that is read, where the server has ended meanwhile."""
        self._skipped = False
        """Whether the line that is too long and has not ended was told of."""
        self._bad_limit = max(BAD_BYTES, limits.message_bytes * 5 // 4)
        self._closed = False
        self._ending: asyncio.Task[None] | None = None
        self._process: ServerProcess

    @classmethod
    async def spawn(
        cls, command: Command, listener: Listener, limits: Limits = DEFAULT, write_limit: int = WRITE_BYTES
    ) -> StdioLink:
        """Start a server. Raises UPSTREAM_UNAVAILABLE when it cannot be started."""
        link = cls(listener, limits, write_limit)
        link._process = await ServerProcess.start(command, link, write_limit)
        return link

    @property
    def pid(self) -> int:
        """The server's process id, which is also its group's."""
        return self._process.pid

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if self._fault is None and (self._full or self._outbox_bytes > self._write_limit):
            raise Fault(
                "RESOURCE_EXHAUSTED", "the server does not read its input", hint="wait a little", retry_after_ms=250
            )
        waiter, message = self._begin(outgoing, sink)
        self._write(message)
        self._asked_last = waiter.id
        if outgoing.method == "subscriptions/listen":
            self._subscriptions[waiter.id] = waiter
        return waiter.id

    async def close(self) -> None:
        self._give_up(Fault("UPSTREAM_UNAVAILABLE", "the connection was closed"))
        if self._ending is not None:
            await asyncio.shield(self._ending)

    # Writing: everything of one turn of the loop goes out in one piece.

    def _write(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if not self._outbox:
            if self._rounds.running:
                self._rounds.then(self._flush)
            else:
                self._loop.call_soon(self._flush)
        self._outbox.append(data)
        self._outbox_bytes += len(data) + 1
        if self._full and self._process.buffered + self._outbox_bytes > 2 * self._write_limit:
            self._give_up(Fault("UPSTREAM_ERROR", "the server does not read its input"))

    def _flush(self) -> None:
        if not self._outbox:
            return
        outbox, self._outbox = self._outbox, []
        large = self._outbox_bytes > LARGE
        self._outbox_bytes = 0
        self._sent_last = self._asked_last
        if large:
            # Joined, they would be copied once more.
            for message in outbox:
                self._process.write(message)
                self._process.write(b"\n")
        else:
            outbox.append(b"")
            self._process.write(b"\n".join(outbox))

    # What the process does (`process.Owner`).

    def paused(self, full: bool) -> None:
        self._full = full

    def wrote(self, fd: int, data: bytes) -> None:
        if fd == STDOUT:
            self._rounds.received(self, data)
            return
        for line in self._stderr.feed(data, self._loop.time()):
            self.listener.on_log("stderr", line)

    def hung_up(self, fd: int) -> None:
        self._rounds.settle()
        if self._fault is not None:
            return
        # An exit closes them too, and explains itself better; it is heard in a moment.
        if fd in (STDIN, STDOUT):
            name = "stdin" if fd == STDIN else "stdout"
            fault = Fault("UPSTREAM_UNAVAILABLE", f"the server closed its {name}")
            self._loop.call_later(HUNG_UP, self._give_up, fault)

    def exited(self) -> None:
        self._rounds.settle()
        self._exited = True
        if self._later is not None:
            self._go_on()

    def ended(self, code: int | None) -> None:
        self._rounds.settle()
        if self._reading:
            # Its last message may be a large one, which is still somebody's answer.
            self._ended = partial(self.ended, code)
            return
        for line in self._stderr.finish():
            self.listener.on_log("stderr", line)
        if self._fault is None:
            self._lose_all(Fault("UPSTREAM_UNAVAILABLE", self._exit_report(code)))
        self._closed_once()

    # Reading (`rounds.Receiver`).

    def take_in(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if self._later is None:
            self._go_through(self._lines.each(data), data)
        else:
            self._later = (chain(self._later[0], self._lines.each(data)), data)

    def give_up(self) -> None:
        self._give_up(Fault("INTERNAL_ERROR", "a fault of ours; it was logged"))

    def _go_through(self, lines: Iterator[bytes | Oversize], data: bytes) -> None:
        """Take the lines of one piece, until the server has had its share of the loop with what nobody asked for."""
        began: float | None = None
        ends = thread_time() + TURN_S
        for line in lines:
            try:
                if isinstance(line, Oversize):
                    self._oversize(data)
                elif not line:
                    pass
                elif len(line) > LARGE:
                    self._read_large(line, lines, data)
                    return
                elif is_batch(line):
                    self._take_batch(line)
                else:
                    self._take_line(line)
            except Exception as cause:  # a fault of whoever waits for this message must not cost the next one
                self._loop.call_exception_handler({"message": "a message could not be handed over", "exception": cause})
            if self._bad_lines > BAD_LINES:
                break  # one read can hold many thousands more, and everyone else would wait for them
            if self._unasked:
                self._unasked = False
                now = thread_time()
                rest = self._share.spend(FIRST_S if began is None else now - began, self._loop.time())
                began = now
                if rest and self._fault is None and not self._exited:
                    self._rest(lines, data, rest)
                    return
            else:
                began = None
                if thread_time() > ends and self._fault is None and not self._exited:
                    self._rest(lines, data, 0)
                    return
        self._bad_bytes += len(data)
        last = data.rfind(b"\n") + 1
        if last or not self._head:
            self._head = data[last : last + 128]
        if self._lines.skipping and not self._skipped:
            self._skipped = True
            self._too_long((self._head,))
        most = LONG_LINES * self._limits.message_bytes if self._lines.skipping else self._bad_limit
        if self._bad_bytes > most or self._bad_lines > BAD_LINES:
            self._give_up(Fault("UPSTREAM_ERROR", "the server floods its stdout with what are not messages"))

    def _read_large(self, line: bytes, lines: Iterator[bytes | Oversize], data: bytes) -> None:
        """Have a large message read beside the loop; what comes behind it waits."""

        def read(outcome: Outcome) -> None:
            self._reading = False
            if self._fault is None:
                self._take_large(line, outcome)
            self._go_on()
            if self._ended is not None and self._later is None:
                self._ended()

        self._later = (lines, data)
        self._reading = True
        self._process.read(STDOUT, on=False)
        LargeReading.here().read(line, self._limits, self._limits.answer_members, read)

    def _take_large(self, line: bytes, outcome: Outcome) -> None:
        for message in outcome if isinstance(outcome, list) else (outcome,):
            try:
                if isinstance(message, BadMessage):
                    self._not_json(line, message)
                else:
                    self._take(message)
            except Exception as cause:  # as for any other message
                self._loop.call_exception_handler({"message": "a message could not be handed over", "exception": cause})

    def _rest(self, lines: Iterator[bytes | Oversize], data: bytes, seconds: float) -> None:
        self._later = (lines, data)
        self._process.read(STDOUT, on=False)
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._reading:
            return
        later, self._later = self._later, None
        if later is None or self._fault is not None:
            return
        self._go_through(*later)
        if self._later is None:
            self._process.read(STDOUT, on=True)

    def _take_line(self, line: bytes) -> None:
        answer = plain_answer(line)
        if answer is not None:
            waiter = self._conversation.answered(answer.id)
            if waiter is not None:
                self._bad_lines = self._bad_bytes = 0
                if self._subscriptions:
                    self._subscriptions.pop(answer.id, None)
                waiter.sink.on_response(answer)
                return
        try:
            message = decode(line, self._limits)
        except BadMessage as bad:
            self._not_json(line, bad)
            return
        self._take(message)

    def _take_batch(self, line: bytes) -> None:
        """A line with several messages (revision 2025-03-26)."""
        try:
            parts = decode_batch(line, self._limits)
        except BadMessage as bad:
            self._not_json(line, bad)
            return
        for part in parts:
            if isinstance(part, BadMessage):
                self._not_json(line, part)
            else:
                self._take(part)

    def _take(self, message: Message) -> None:
        self._bad_lines = 0
        self._bad_bytes = 0
        self._unasked = isinstance(message, Notification | Request)
        if type(message) is Notification and self._subscriptions and self._for_subscription(message):
            return
        if self._subscriptions and isinstance(message, Result | Failure) and message.id is not None:
            self._subscriptions.pop(message.id, None)
        super()._take(message)

    def _for_subscription(self, notification: Notification) -> bool:
        """Whether this belongs to a `subscriptions/listen` (2026-07-28, Subscriptions: Receiving Notifications)."""
        params = notification.params
        try:
            if notification.method == CANCELLED:
                waiter = self._subscriptions.get(_plain(members(params).get("requestId")))
                if waiter is not None and self._forget(waiter.id):
                    waiter.sink.on_lost(Fault("UPSTREAM_UNAVAILABLE", "the server ended the subscription"))
                return waiter is not None
            if not may_spell(params, SUBSCRIPTION_ID.encode()):
                return False
            meta = members(bytes(members(params).get("_meta", EMPTY_OBJECT)))
            waiter = self._subscriptions.get(_plain(meta.get(SUBSCRIPTION_ID)))
        except Fault:
            return False
        if waiter is None:
            return False
        waiter.sink.on_notification(notification.method, params)
        return True

    # What goes wrong.

    def _not_json(self, line: bytes, bad: BadMessage) -> None:
        self._bad_lines += 1
        self._complain("line", f"{bad.message}: {printable(line[:200])}")
        if bad.id is not None and (bad.asks or (len(line) <= LARGE and names_method(line))):
            # A request of its own that cannot be taken. Its ids are not ours.
            if not self.modern:
                self._write(encode_failure(bad.id, bad.render(ErrorDialect.OLD_MCP)))
            return
        if self._fail(_id_in(line) if bad.id is None else bad.id, f"its answer cannot be read: {bad.message}"):
            self._bad_bytes = 0  # one bad answer, however long, is no flood

    def _oversize(self, data: bytes) -> None:
        """A line that was too long, within `data` or begun before it. Its beginning may tell whose answer it was."""
        self._bad_lines += 1
        self._bad_bytes = 0
        if self._skipped:
            self._skipped = False
            return
        limit = self._limits.message_bytes
        self._too_long((self._head, *(piece[:128] for piece in data.split(b"\n")[:-1] if len(piece) > limit)))

    def _too_long(self, heads: Iterable[bytes]) -> None:
        limit = self._limits.message_bytes
        self._complain("oversize", f"a line over {limit} bytes")
        for head in heads:
            self._fail(_id_in(head), f"its answer is over the limit of {limit} bytes")

    def _fail(self, id: Id | None, why: str) -> bool:
        """A message that cannot be taken, but carries the id of a request of ours: it was to be the answer."""
        for waiting, waiter in self._conversation.expire(math.inf):
            if waiting == id and self._forget(id):
                waiter.sink.on_lost(Fault("UPSTREAM_ERROR", why))
                return True
        return False

    # How requests end.

    def _withdraw(self, id: Id, reason: str) -> bool:
        self._subscriptions.pop(id, None)
        return super()._withdraw(id, reason)

    def _forget(self, id: Id) -> bool:
        self._subscriptions.pop(id, None)
        return super()._forget(id)

    def _reached(self, waiter: Waiter) -> bool:
        return waiter.id <= self._sent_last

    def _give_up(self, fault: Fault) -> None:
        """End the server, and everyone's waiting first."""
        if self._fault is not None:
            return
        self._flush()
        self._lose_all(fault)
        self._ending = self._loop.create_task(self._process.end())

    def _lose_all(self, fault: Fault) -> None:
        self._outbox.clear()
        self._subscriptions.clear()
        super()._lose_all(fault)

    def _closed_once(self) -> None:
        if self._closed:
            return
        self._closed = True
        assert self._fault is not None
        self.listener.on_closed(self._fault)

    def _exit_report(self, code: int | None) -> str:
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
        last = "; ".join(list(self._stderr.last)[-3:])
        return f"the server {how}" + (f": {last}" if last else "")


def _id_in(head: bytes) -> int | None:
    """The id at the beginning of a message that cannot be read as a whole."""
    known = _ID_IN_HEAD.match(head)
    return None if known is None else int(known[1])


def _plain(raw: msgspec.Raw | None) -> Id:
    """A raw id as a value; 0 is no id of ours."""
    try:
        return 0 if raw is None else msgspec.json.decode(raw, type=int | str)
    except msgspec.DecodeError:
        return 0
