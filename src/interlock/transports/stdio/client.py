"""The client half of stdio: a `Link` to a server that is a process of ours.

All requests share one stream each way. Memory is bounded, and no request outlives its deadline. `server_lines.py`
reads the server's output.
"""

from __future__ import annotations

import asyncio
from time import thread_time
from typing import Final

import msgspec

from interlock.protocols.mcp.meta import SUBSCRIPTION_ID, members
from interlock.transports.batching import Batching
from interlock.transports.link import Listener
from interlock.transports.one_stream import OneStreamLink, Waiter
from interlock.transports.stdio.process import STDIN, STDOUT, Command, ServerProcess
from interlock.transports.stdio.server_lines import TURN_S, ServerLines
from interlock.transports.stdio.stderr_lines import StderrLines
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    EMPTY_OBJECT,
    BadMessage,
    Id,
    Message,
    Notification,
    encode_failure,
)
from interlock.wire.names import may_spell

JOINED_BYTES: Final = 64 * 1024
"""More bytes than this are written message by message: joined, they would be copied once more."""

HUNG_UP: Final = 1.0
"""Seconds that a server that closed a stream has to exit by itself."""

WRITE_BYTES: Final = 16 * 1024 * 1024
"""How many bytes may wait for the server to read them. Beyond, requests are refused; at twice that, the server is
ended."""


class StdioLink(OneStreamLink):
    """A connection to a server over its standard streams. Made by `spawn`.

    Complaints are of kind `line`, `oversize`, `stray` and `refused`.
    """

    says = "stdout"

    def __init__(self, listener: Listener, limits: Limits = DEFAULT, write_limit: int = WRITE_BYTES) -> None:
        super().__init__(listener, limits)
        self._write_limit = write_limit
        self._batching = Batching.of(self._loop)
        self.output = ServerLines(self, self._conversation, limits)
        """Reads the server's stdout."""
        self.gone = False
        """Whether the link has been given up: nothing more is read."""
        self._stderr = StderrLines()
        self._logging = False
        """Whether lines of stderr wait for the next turn of the loop."""
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._asked_last = 0
        self._sent_last = 0
        self._full = False
        self._exit_code: int | None = None
        self._exit_pending = False
        """Whether the server has ended, and a large message of it is still being read."""
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

    async def close(self) -> None:
        self.give_up(Fault("UPSTREAM_UNAVAILABLE", "the connection was closed"))
        if self._ending is not None:
            await asyncio.shield(self._ending)

    # Writing: everything of one turn of the loop goes out in one piece.

    def _post(self, message: bytes, waiter: Waiter) -> None:
        if self._full or self._outbox_bytes > self._write_limit:
            raise Fault(
                "RESOURCE_EXHAUSTED", "the server does not read its input", hint="wait a little", retry_after_ms=250
            )
        self._asked_last = waiter.id
        self._write(message)

    def _write(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if not self._outbox:
            if self._batching.running:
                self._batching.then(self._flush)
            else:
                self._loop.call_soon(self._flush)
        self._outbox.append(data)
        self._outbox_bytes += len(data) + 1
        if self._full and self._process.buffered + self._outbox_bytes > 2 * self._write_limit:
            self.give_up(Fault("UPSTREAM_ERROR", "the server does not read its input"))

    def _flush(self) -> None:
        if not self._outbox:
            return
        outbox, self._outbox = self._outbox, []
        joined = self._outbox_bytes <= JOINED_BYTES
        self._outbox_bytes = 0
        self._sent_last = self._asked_last
        stdin = self._process.stdin
        if stdin.is_closing():
            return
        if joined:
            outbox.append(b"")
            stdin.write(b"\n".join(outbox))
            return
        for message in outbox:
            stdin.write(message)
            stdin.write(b"\n")

    # Events of the process (`process.ProcessListener`).

    def paused(self, full: bool) -> None:
        self._full = full

    def on_stderr(self, data: bytes) -> None:
        self._stderr.feed(data, self._loop.time())
        if not self._logging:
            self._log_stderr()

    def _log_stderr(self) -> None:
        """Log the lines that wait, a millisecond of them in each turn of the loop."""
        ends = thread_time() + TURN_S
        self._logging = False
        for line in self._stderr.lines():
            if line:
                self.listener.on_log("stderr", line)
            if thread_time() > ends:
                self._logging = True
                self._loop.call_soon(self._log_stderr)
                return

    def hung_up(self, fd: int) -> None:
        self._batching.settle()
        if self._fault is not None:
            return
        # An exit closes them too. It is reported in a moment, and explains more.
        if fd in (STDIN, STDOUT):
            name = "stdin" if fd == STDIN else "stdout"
            fault = Fault("UPSTREAM_UNAVAILABLE", f"the server closed its {name}")
            self._loop.call_later(HUNG_UP, self.give_up, fault)

    def exited(self) -> None:
        self._batching.settle()
        self.output.finish()

    def ended(self, code: int | None) -> None:
        self._batching.settle()
        if self.output.reading:
            # Its last message may be a large one that is still being read, and may be an answer.
            self._exit_code, self._exit_pending = code, True
            return
        for line in self._stderr.finish():
            self.listener.on_log("stderr", line)
        if self._fault is None:
            self._lose_all(self._exit_fault(code))
        if not self._closed:
            self._closed = True
            assert self._fault is not None
            self.listener.on_closed(self._fault)

    # The reader of its output calls these (`server_lines.MessageTaker`).

    def take(self, message: Message) -> bool:
        if type(message) is not Notification or not self._for_subscription(message):
            return self._take(message)
        return False

    def refuse_unread(self, bad: BadMessage) -> None:
        if not self.modern and bad.id is not None:
            self._write(encode_failure(bad.id, bad.render(ErrorDialect.OLD_MCP)))

    def complain(self, kind: str, text: str) -> None:
        self._complain(kind, text)

    def give_up(self, fault: Fault) -> None:
        """End the server, after every request that waits for it."""
        if self._fault is not None:
            return
        self._flush()
        self._lose_all(fault)
        self._ending = self._loop.create_task(self._process.end())

    def read(self, *, on: bool) -> None:
        self._process.read(STDOUT, on=on)

    def _hold_stream(self, *, on: bool) -> None:
        self.output.hold(on=on)

    def large_read(self) -> None:
        if self._exit_pending:
            self._exit_pending = False
            self.ended(self._exit_code)

    def _for_subscription(self, notification: Notification) -> bool:
        """Whether this belongs to a `subscriptions/listen` (2026-07-28, Subscriptions: Receiving Notifications)."""
        params, cancelled = notification.params, notification.method == CANCELLED_METHOD
        if not (cancelled or may_spell(params, SUBSCRIPTION_ID.encode())):
            return False
        try:
            if cancelled:
                id_ = read_withdrawal(params)[0]
            else:
                id_ = _plain(members(bytes(members(params).get("_meta", EMPTY_OBJECT))).get(SUBSCRIPTION_ID))
        except (Fault, msgspec.DecodeError):
            return False
        waiting = self._conversation.waiting.get(id_)
        if waiting is None or waiting[0].outgoing.method != "subscriptions/listen":
            return False
        waiter = waiting[0]
        if not cancelled:
            waiter.sink.on_notification(notification.method, params)
        elif self._forget(waiter.id):
            waiter.sink.on_lost(Fault("UPSTREAM_UNAVAILABLE", "the server ended the subscription"))
        return True

    # How requests end.

    def _reached(self, waiter: Waiter) -> bool:
        return waiter.id <= self._sent_last

    def _lose_all(self, fault: Fault) -> None:
        self.gone = True
        self._outbox.clear()
        super()._lose_all(fault)

    def _exit_fault(self, code: int | None) -> Fault:
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
        # The last lines of a process that was ended by a signal do not explain its end.
        last = "" if code in _SILENT_ENDS else self._stderr.explain_exit()
        return Fault("UPSTREAM_UNAVAILABLE", f"the server {how}", data={"exit_code": code}, operator_text=last)


_SILENT_ENDS: Final = frozenset({-1, -9, -15})
"""SIGHUP, SIGKILL and SIGTERM, as numbers: Windows does not have the names."""


def _plain(raw: msgspec.Raw | None) -> Id:
    """A raw id as a value; 0 is no id of ours."""
    try:
        return 0 if raw is None else msgspec.json.decode(raw, type=int | str)
    except msgspec.DecodeError:
        return 0
