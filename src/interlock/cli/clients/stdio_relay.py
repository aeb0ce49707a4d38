"""Relays messages between a client's pipes and the hub, and outlives the hub.

When the hub stops, the relay answers the client's open requests with an error, and cancels those of the hub. A request
that may have had an effect has an unknown outcome, so the relay does not repeat it. When a hub is back, the relay sends
it the client's `initialize`, subscriptions and log level, and tells the client that the lists have changed.
A hub is started only when the client has something to send: the first with the user's own configuration, a later one
as the last one was started, and not before the operator had time to start it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli.clients.relayed_lines import LineLimit, RelayedMessage, messages_of, read_lines
from interlock.cli.control.agent_environment import with_environment
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure, CommandRefused, NoHub
from interlock.protocols.mcp.methods import IDEMPOTENT
from interlock.wire.cancellation import withdrawal
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.messages import Id, encode_notification

if TYPE_CHECKING:
    from interlock.cli.control.starting import HubStart

FINAL_ANSWERS_S: Final = 60.0
"""How long the hub may still answer after the client has closed its input."""
LOOK_EVERY_S: Final = 0.25
"""How often the relay looks whether a hub is back."""
OPERATOR_FIRST_S: Final = 3.0
"""How long after the end of a hub only others may start one: `interlock down`, then `interlock up --config FILE`."""
PAUSE_S: Final = 0.05
"""Keeps a hub that closes every connection at once from being asked without end."""
MAX_REPEATED: Final = 1000
"""Upper bound for the subscriptions that are repeated."""
OUTCOME_UNKNOWN: Final = (
    "the hub stopped before it answered, and whether this was carried out is unknown; look before you repeat it"
)
GONE: Final = "the hub that asked has stopped"


class HubDialer:
    """Connects to the hub of this user, with the client's key and view."""

    def __init__(self, home: Path, key: str | None, view: str | None) -> None:
        self._home = home
        self._key = key
        self._view = view
        self._start: HubStart | None = None
        """How the last hub was started."""

    def connect(self, *, start: bool) -> HubLink:
        """Raises NoHub if none runs and none may be started."""
        from interlock.cli.control.starting import HubStart, reach_hub

        if start:
            link = reach_hub(self._home, role="stdio", key=self._key, view=self._view, start=self._start)
        else:
            link = HubLink.open(self._home, role="stdio", key=self._key, view=self._view)
        self._start = HubStart.like(link, self._home)
        return link


class Relay:
    """One client, and one hub after another."""

    def __init__(self, dialer: HubDialer, source: int, sink: int) -> None:
        self._dialer = dialer
        self._source = source
        self._sink = sink
        self._sock: socket.socket | None = None
        self._limit = LineLimit()
        self._changed = threading.Condition()
        """Guards everything below, and wakes who waits for a connection or for a reason to make one."""
        self._open: dict[Id | float, str] = {}
        """The methods of the client's requests that have no answer yet."""
        self._unanswered: set[Id] = set()
        """The hub's requests that the client has not answered. Answers to an earlier hub are dropped: no hub uses the
        ids of another (`wire/ids.py`)."""
        self._initialize: RelayedMessage | None = None
        self._initialized = False
        self._repeated: dict[str, RelayedMessage] = {}
        """Requests that a new hub must receive too, by what they set."""
        self._list_changes: list[str] = []
        self._own: set[str] = set()
        """Ids of the relay's own requests, whose answers the client must not see."""
        self._wanted = False
        """Whether the client waits for a hub."""
        self._failure: CommandFailure | None = None
        """Why no hub could be started for the client's last message."""
        self._ended = False
        self._done = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Relay until the client closes its input, or a hub refuses the client."""
        link = self._dialer.connect(start=True)
        self._limit.set_for(link.hello)
        threading.Thread(target=self._read_client, daemon=True).start()
        while True:
            self._serve(link)
            start_from = monotonic() + OPERATOR_FIRST_S
            self._done.wait(PAUSE_S)
            if (next_link := self._next_link(start_from)) is None:
                break
            link = next_link
            self._limit.set_for(link.hello)
        self._done.set()

    # From the hub to the client

    def _serve(self, link: HubLink) -> None:
        """Pass on everything that one hub sends, until it closes."""
        sock, early = link.detach()
        with contextlib.suppress(OSError):
            self._introduce(sock)
            with self._changed:
                self._sock = sock
                # Only now: a hub that closes at once must leave the client's message waiting.
                self._wanted = False
                self._failure = None
                self._changed.notify_all()
                ended = self._ended
            if ended:  # The client ended before there was a connection to close.
                sock.shutdown(socket.SHUT_WR)
                sock.settimeout(FINAL_ANSWERS_S)
            for lines in read_lines(sock.recv, early, self._limit):
                self._on_hub_lines(lines)
        with self._changed:
            self._sock = None
            from_hub, self._unanswered = self._unanswered, set()
            from_client, self._open = self._open, {}
            ended = self._ended
        sock.close()
        if ended:
            return
        withdrawn = [encode_notification(CANCELLED_METHOD, withdrawal(each, GONE)) + b"\n" for each in from_hub]
        self._write(b"".join(withdrawn))
        for unanswered_id, method in from_client.items():
            if method in IDEMPOTENT or method == "initialize":
                self._fail(unanswered_id)
            else:
                self._write_error(unanswered_id, OUTCOME_UNKNOWN, "external", "OUTCOME_UNKNOWN", retryable=False)

    def _introduce(self, sock: socket.socket) -> None:
        """Make the client known to a new hub, as it made itself known to the first one."""
        if self._initialize is None:
            return
        self._own.clear()
        lines = [self._initialize.with_id(self._own_id())]
        if self._initialized:
            lines.append(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            lines += [message.with_id(self._own_id()) for message in self._repeated.values()]
        sock.sendall(b"".join(lines))
        if self._initialized:
            for name in self._list_changes:
                self._write(b'{"jsonrpc":"2.0","method":"notifications/%b/list_changed"}\n' % name.encode())

    def _own_id(self) -> str:
        own = f"interlock-relay-{len(self._own)}"
        self._own.add(own)
        return own

    def _on_hub_lines(self, lines: list[bytes]) -> None:
        with self._changed:
            passed_on = [line for line in lines if self._is_for_client(messages_of(line))]
        self._write(b"".join(passed_on))

    def _is_for_client(self, messages: list[RelayedMessage]) -> bool:
        """Note the messages of a line of the hub. Answers to the relay's own requests are not for the client."""
        for message in messages:
            if message.answered_id is not None:
                if message.answered_id in self._own:
                    return False
                self._open.pop(message.answered_id, None)
                initialize = self._initialize
                if initialize is not None and message.answered_id == initialize.id and not self._list_changes:
                    self._list_changes = message.changing_lists
            elif isinstance(message.id, Id):
                self._unanswered.add(message.id)
            elif message.method == CANCELLED_METHOD:
                self._unanswered -= message.withdrawn
        return True

    def _fail(
        self, id: Id | float, message: str = "the hub stopped before it answered; send the request again"
    ) -> None:
        """Answer a request that had no effect, because it never reached the hub or only reads."""
        self._write_error(id, message, "lifecycle", "SERVER_DISCONNECTED", retryable=True)

    def _write_error(self, id: Id | float, message: str, domain: str, name: str, *, retryable: bool) -> None:
        data = {"domain": domain, "name": name, "retryable": retryable}
        error = {"code": -32603, "message": message, "data": data}
        self._write(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error}) + b"\n")

    def _write(self, lines: bytes) -> None:
        with self._writing:
            view = memoryview(lines)
            while view:
                view = view[os.write(self._sink, view) :]

    def _next_link(self, start_from: float) -> HubLink | None:
        """A connection to the next hub: one that is back, or one that is started for a waiting message."""
        while True:
            with self._changed:
                if self._ended:
                    return None
                wanted = self._wanted
            try:
                link = self._dialer.connect(start=wanted and monotonic() >= start_from)
            except CommandRefused:
                raise
            except CommandFailure as failure:
                with self._changed:
                    if not isinstance(failure, NoHub):
                        self._wanted = False
                        self._failure = failure
                        self._changed.notify_all()
                    if not self._wanted or monotonic() < start_from:
                        self._changed.wait(LOOK_EVERY_S)
                continue
            return link

    # From the client to the hub

    def _read_client(self) -> None:
        with contextlib.suppress(OSError):
            for lines in read_lines(self._read_source, b"", self._limit):
                self._on_client_lines(lines)
        with self._changed:
            self._ended = True
            sock = self._sock
            self._changed.notify_all()
        if sock is None:
            return
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        # The hub closes after its last answer. The relay does not wait for a hub that never does.
        if not self._done.wait(FINAL_ANSWERS_S):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _read_source(self, size: int) -> bytes:
        return os.read(self._source, size)

    def _on_client_lines(self, lines: list[bytes]) -> None:
        """Send lines to the hub, all at once: the hub wakes once for many. Requests that cannot reach it are
        answered."""
        read = [_read_client_line(line) for line in lines]
        with self._changed:
            self._failure = None
            while self._sock is None and not self._ended and self._failure is None:
                self._wanted = True
                self._changed.notify_all()
                self._changed.wait()
            sock, failure = self._sock, self._failure
            if sock is not None:
                read = [(said, line) for said, line in read if self._is_for_hub(said)]
        if failure is not None:
            for message in chain.from_iterable(said for said, _ in read):
                if message.request_id is not None:
                    self._fail(message.request_id, failure.message)
        if sock is None:
            return
        unsent = memoryview(b"".join([line for _, line in read]))
        try:
            while unsent:
                unsent = unsent[sock.send(unsent) :]
        except OSError:
            self._fail_unsent(read, len(unsent))

    def _is_for_hub(self, messages: list[RelayedMessage]) -> bool:
        """Note the messages of a line of the client. Answers to requests of an earlier hub are not for this one."""
        late = 0
        for message in messages:
            if message.answered_id is not None:
                late += message.answered_id not in self._unanswered
                self._unanswered -= {message.answered_id}
            elif message.request_id is not None:
                self._open[message.request_id] = message.method or ""
            self._remember(message)
        return not late or late < len(messages)

    def _fail_unsent(self, lines: list[tuple[list[RelayedMessage], bytes]], unsent: int) -> None:
        """Answer the requests in these lines whose last byte was not sent."""
        not_sent: list[RelayedMessage] = []
        for messages, line in reversed(lines):
            if unsent <= 0:
                break
            unsent -= len(line)
            not_sent += reversed(messages)
        ids = [message.request_id for message in reversed(not_sent) if message.request_id is not None]
        with self._changed:
            failed = [each for each in ids if self._open.pop(each, None) is not None]
        for each in failed:
            self._fail(each)

    def _remember(self, message: RelayedMessage) -> None:
        """Keep the messages that a new hub must receive too."""
        match message.method:
            case "initialize" if self._initialize is None:
                self._initialize = message
            case "notifications/initialized":
                self._initialized = True
            case "logging/setLevel":
                self._repeated["level"] = message
            case "resources/subscribe" if len(self._repeated) < MAX_REPEATED:
                self._repeated[f"uri {message.uri}"] = message
            case "resources/unsubscribe":
                self._repeated.pop(f"uri {message.uri}", None)


def _read_client_line(line: bytes) -> tuple[list[RelayedMessage], bytes]:
    """The messages of a client's line, and the line for the hub."""
    messages = messages_of(line)
    if len(messages) == 1 and messages[0].method == "initialize":
        line = with_environment(line, os.environ)
        messages = messages_of(line)
    return messages, line
