"""Relays messages between a client's pipes and the hub, and outlives the hub.

When the hub goes, the relay answers the client's open requests with an error, and withdraws those of the hub. The
outcome of a request that may have had an effect is unknown then, so the relay does not ask for it again. When a hub is
back, the relay repeats the client's `initialize`, its subscriptions and its log level there, and tells the client that
the lists have changed.
A hub is started only when the client has something to send: the first with the user's own configuration, a later one
as the last one was started, and not before the operator had time to start it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli.control.agent_environment import with_environment
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import Failure, NoHub, Refused
from interlock.protocols.mcp.methods import IDEMPOTENT
from interlock.wire.cancellation import read_withdrawal, withdrawal
from interlock.wire.conversation import CANCELLED
from interlock.wire.json_values import decode_json_or
from interlock.wire.messages import Id, encode_notification

if TYPE_CHECKING:
    from interlock.cli.control.starting import HubStart

CHUNK: Final = 65_536
FINAL_ANSWERS_S: Final = 60.0
"""How long the hub may still answer after the client has closed its input."""
LOOK_EVERY_S: Final = 0.25
"""How often the relay looks whether a hub is back."""
OPERATOR_FIRST_S: Final = 3.0
"""How long after the end of a hub only others may start one: `interlock down`, then `interlock up --config FILE`."""
PAUSE_S: Final = 0.05
"""Keeps a hub that closes every connection at once from being asked without end."""
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""A longer line is passed on in pieces, unread: the hub refuses it."""
MAX_REPEATED: Final = 1000
"""Upper bound for the subscriptions that are repeated."""
OUTCOME_UNKNOWN: Final = (
    "the hub stopped before it answered, and whether this was carried out is unknown; look before you repeat it"
)
GONE: Final = "the hub that asked has stopped"
_LISTS: Final = ("tools", "prompts", "resources")


class _Message(msgspec.Struct):
    id: Id | float | None = None
    method: str | None = None


class _Resource(msgspec.Struct):
    uri: str = ""


class _Subscribe(msgspec.Struct):
    params: _Resource


class _Notification(msgspec.Struct):
    params: msgspec.Raw


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
        self._changed = threading.Condition()
        """Guards everything below, and wakes who waits for a connection or for a reason to make one."""
        self._open: dict[Id | float, str] = {}
        """The methods of the client's requests that have no answer yet."""
        self._unanswered: set[Id] = set()
        """The hub's requests that the client has not answered. Answers to an earlier hub are dropped: no hub uses the
        ids of another (`wire/ids.py`)."""
        self._initialize: bytes | None = None
        self._initialize_id: Id | float | None = None
        self._initialized = False
        self._repeated: dict[str, bytes] = {}
        """Requests that a new hub must receive too, by what they set."""
        self._list_changes: list[str] = []
        self._own: set[str] = set()
        """Ids of the relay's own requests, whose answers the client must not see."""
        self._wanted = False
        """Whether the client waits for a hub."""
        self._failure: Failure | None = None
        """Why no hub could be started for the client's last message."""
        self._ended = False
        self._done = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Relay until the client closes its input, or a hub refuses the client."""
        link = self._dialer.connect(start=True)
        threading.Thread(target=self._read_client, daemon=True).start()
        while True:
            self._serve(link)
            start_from = monotonic() + OPERATOR_FIRST_S
            self._done.wait(PAUSE_S)
            if (next_link := self._next_link(start_from)) is None:
                break
            link = next_link
        self._done.set()

    # From the hub to the client

    def _serve(self, link: HubLink) -> None:
        """Pass on everything that one hub sends, until it closes."""
        sock, early = link.detach()
        with contextlib.suppress(OSError):
            self._introduce(sock)
            with self._changed:
                self._sock = sock
                # Not before: a hub that closes at once leaves the client waiting.
                self._wanted = False
                self._failure = None
                self._changed.notify_all()
                ended = self._ended
            if ended:  # before there was a connection that could be closed
                sock.shutdown(socket.SHUT_WR)
                sock.settimeout(FINAL_ANSWERS_S)
            for lines in _lines(sock.recv, early):
                self._on_hub_lines(lines)
        with self._changed:
            self._sock = None
            from_hub, self._unanswered = self._unanswered, set()
            from_client, self._open = self._open, {}
            ended = self._ended
        sock.close()
        if ended:
            return
        self._write(b"".join([encode_notification(CANCELLED, withdrawal(each, GONE)) + b"\n" for each in from_hub]))
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
        lines = [_with_id(self._initialize, self._own_id())]
        if self._initialized:
            lines.append(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            lines += [_with_id(line, self._own_id()) for line in self._repeated.values()]
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
            passed_on = [line for line in lines if self._is_for_client(line)]
        self._write(b"".join(passed_on))

    def _is_for_client(self, line: bytes) -> bool:
        """Note a message of the hub. Answers to the relay's own requests are not for the client."""
        message = _peek(line)
        if message.method is None and message.id is not None:
            if isinstance(message.id, str) and message.id in self._own:
                return False
            self._open.pop(message.id, None)
            if message.id == self._initialize_id and not self._list_changes:
                self._list_changes = _changing_lists(line)
        elif isinstance(message.id, Id):
            self._unanswered.add(message.id)
        elif message.method == CANCELLED:
            self._unanswered -= _withdrawn(line)
        return True

    def _fail(
        self, id: Id | float, message: str = "the hub stopped before it answered; send the request again"
    ) -> None:
        """Answer a request that had no effect: it never reached the hub, or it only reads."""
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
            except Refused:
                raise
            except Failure as failure:
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
            for lines in _lines(self._read_source, b""):
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
        messages = [_read_client_line(line) for line in lines]
        with self._changed:
            self._failure = None
            while self._sock is None and not self._ended and self._failure is None:
                self._wanted = True
                self._changed.notify_all()
                self._changed.wait()
            sock, failure = self._sock, self._failure
            if sock is not None:
                messages = [(message, line) for message, line in messages if self._is_for_hub(message, line)]
        if failure is not None:
            for message, _ in messages:
                if message.id is not None and message.method is not None:
                    self._fail(message.id, failure.message)
        if sock is None:
            return
        unsent = memoryview(b"".join([line for _, line in messages]))
        try:
            while unsent:
                unsent = unsent[sock.send(unsent) :]
        except OSError:
            self._fail_unsent(messages, len(unsent))

    def _is_for_hub(self, message: _Message, line: bytes) -> bool:
        """Note a message of the client. An answer to a request of an earlier hub is not for this one."""
        if message.method is None and message.id is not None:
            if message.id not in self._unanswered:
                return False
            self._unanswered -= {message.id}
        elif message.id is not None:
            self._open[message.id] = message.method or ""
        self._remember(message, line)
        return True

    def _fail_unsent(self, messages: list[tuple[_Message, bytes]], unsent: int) -> None:
        """Answer the requests among these messages whose last byte was not sent."""
        failed = []
        with self._changed:
            for message, line in reversed(messages):
                if unsent <= 0:
                    break
                unsent -= len(line)
                if (
                    message.id is not None
                    and message.method is not None
                    and self._open.pop(message.id, None) is not None
                ):
                    failed.append(message.id)
        for each in reversed(failed):
            self._fail(each)

    def _remember(self, message: _Message, line: bytes) -> None:
        """Keep the messages that a new hub must receive too."""
        match message.method:
            case "initialize" if self._initialize is None:
                self._initialize, self._initialize_id = line, message.id
            case "notifications/initialized":
                self._initialized = True
            case "logging/setLevel":
                self._repeated["level"] = line
            case "resources/subscribe" if len(self._repeated) < MAX_REPEATED:
                self._repeated[f"uri {_uri(line)}"] = line
            case "resources/unsubscribe":
                self._repeated.pop(f"uri {_uri(line)}", None)


def _lines(read: Callable[[int], bytes], rest: bytes) -> Iterator[list[bytes]]:
    """The complete lines of a stream, with their ends, as many as came together. The unfinished line at the end of a
    stream is dropped."""
    pieces = [rest]
    while True:
        if b"\n" in pieces[-1]:
            *complete, last = b"".join(pieces).split(b"\n")
            yield [line + b"\n" for line in complete]
            pieces = [last]
        elif len(pieces) * CHUNK > MAX_LINE_BYTES:
            yield [b"".join(pieces)]
            pieces = [b""]
        if not (chunk := read(CHUNK)):
            return
        pieces.append(chunk)


def _read_client_line(line: bytes) -> tuple[_Message, bytes]:
    """A message of the client, and its line for the hub."""
    message = _peek(line)
    return message, with_environment(line, os.environ) if message.method == "initialize" else line


def _peek(line: bytes) -> _Message:
    """Id and method of a message. The hub answers a line that is not a message."""
    return decode_json_or(line, _Message, _Message())


def _with_id(line: bytes, id: str) -> bytes:
    message = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**message, "id": id}) + b"\n"


def _uri(line: bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line, type=_Subscribe).params.uri
    return ""


def _withdrawn(line: bytes) -> set[Id]:
    """The request that a `notifications/cancelled` of the hub withdraws."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        return {read_withdrawal(msgspec.json.decode(line, type=_Notification).params)[0]}
    return set()


def _changing_lists(line: bytes) -> list[str]:
    """The lists whose changes the hub announced in its answer to `initialize`."""
    with contextlib.suppress(msgspec.DecodeError, AttributeError, KeyError, TypeError):
        capabilities = msgspec.json.decode(line)["result"]["capabilities"]
        return [name for name in _LISTS if (capabilities.get(name) or {}).get("listChanged") is True]
    return []
