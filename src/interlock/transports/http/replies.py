"""What comes back over HTTP: the answer to a request, and the receipt for what needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from interlock.protocols.mcp.answers import plain_answer
from interlock.protocols.mcp.methods import METHODS
from interlock.transports.http.channel import Failed, Reply
from interlock.transports.http.reading import (
    BAD_EVENTS,
    FLOOD,
    RETRY_SECONDS,
    header_text,
    http_fault,
    read_error,
    read_messages,
    speaks_of_recovery,
    taken,
)
from interlock.transports.large_reading import MOST_HELD, LargeReading
from interlock.transports.link import Outgoing, Sink
from interlock.wire.conversation import CANCELLED, PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.messages import Failure, Message, Notification, Request, Result
from interlock.wire.sse import EventReader, EventTooLarge, SseEvent

if TYPE_CHECKING:
    from interlock.transports.http.client import HttpLink

ERROR_BYTES: Final = 64 * 1024
"""What is read of a body that is no message."""

RESUMES: Final = 10
"""How often in a row a broken stream is asked for again without anything new coming."""

REDIRECTS: Final = 3

IDEMPOTENT: Final = frozenset(
    row.name for row in METHODS.values() if row.sender == "client" and row.name not in ("tools/call", "initialize")
) | {"ping"}
"""Requests that may be sent again when it is not known whether the first was heard."""

REPEATED: Final = IDEMPOTENT | {"initialize"}
"""Sent again where a connection that was kept turned out to be closed. Of a second handshake a session may be left that
nobody uses; without it, a server that was started anew has none, since it hung up on all connections."""


class Call(Reply):
    """One request of ours, and its response as it comes."""

    # What few calls ever change stands here once, not in each of them.
    timer: asyncio.TimerHandle | None = None
    session: str | None = None
    """The session that it was sent in (handshake era)."""
    last_event_id: str | None = None
    least = 0.0
    """It may take until then, whatever progress says."""
    _status = 0
    _headers: Mapping[bytes, bytes] = MappingProxyType({})
    _json = False
    _events: EventReader | None = None
    _size = 0
    _retry = RETRY_SECONDS
    _resumes = 0
    _redirects = 0
    _repeated = False
    _bad = 0
    _told = False
    """Whether its answer came: what follows on its stream is nobody's."""
    _chunks: list[bytes] | None = None
    _waiting: list[SseEvent] | None = None
    """Events behind a large one that is being read; None where none is."""
    _ended = False
    """Whether the stream ended while one was."""

    def __init__(self, link: HttpLink, outgoing: Outgoing, sink: Sink, id: int, params: bytes) -> None:
        self._link = link
        self.outgoing = outgoing
        self.sink = sink
        self.id = id
        self.params = params
        """As they went out."""
        self.deadline = outgoing.deadline

    def renew(self) -> None:
        """Forget the response so far: another follows."""
        self._status = 0
        self._headers = {}
        self._json = False
        self._events = None
        self._chunks = None
        self._size = 0

    # pool.Reply

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        self._headers = headers
        kind = headers.get(b"content-type", b"").lower()
        streams = status == 200 and kind.startswith(b"text/event-stream")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._link.limits.message_bytes and not streams:
            self._lose("UPSTREAM_ERROR", f"its answer is over the limit of {self._link.limits.message_bytes} bytes")
            return
        if status != 200:
            return
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            self._lose("UPSTREAM_ERROR", "the server compresses its answer, which nobody asked for")
            return
        if kind.startswith(b"application/json"):
            self._json = True
        elif streams:
            self._events = EventReader(self._link.limits.message_bytes)

    def body(self, data: bytes) -> None:
        if self._events is not None:
            if not self._told:
                self._read_events(self._events, data)
            return
        self._size += len(data)
        if self._size <= (self._link.limits.message_bytes if self._json else ERROR_BYTES):
            if self._chunks:
                self._chunks.append(data)
            else:
                self._chunks = [data]
        elif self._json:
            self._lose("UPSTREAM_ERROR", f"its answer is over the limit of {self._link.limits.message_bytes} bytes")

    def done(self) -> None:
        if self._events is not None:
            if self._waiting is not None:
                self._ended = True
            elif not self._told:
                self._broken("the response stream ended without the answer")
            return
        body = b"".join(self._chunks or ())
        self._chunks = None
        if self._json and len(body) > LARGE:
            self._read_large(body)
        elif self._json:
            self._take(read_messages(self._link, body))
        else:
            self._refused(body)

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        link = self._link
        answer = plain_answer(body) if len(body) <= link.limits.message_bytes else None
        if answer is not None and answer.id == self.id and self.outgoing.method != "initialize":
            if link.finish(self):
                self.sink.on_response(answer)
            return
        super().whole(headers, body)

    def failed(self, how: Failed) -> None:
        if not how.sent:
            self._lose("UPSTREAM_UNAVAILABLE", how.why)
        elif how.reused and not how.began and not self._repeated and self.outgoing.method in REPEATED:
            self._repeated = True
            self._link.repeat(self)
        else:
            self._broken(how.why)

    # What the response says.

    def _read_events(self, reader: EventReader, data: bytes) -> None:
        try:
            events = reader.feed(data)
        except EventTooLarge as cause:
            self._lose("UPSTREAM_ERROR", str(cause))
            return
        if self._waiting is None:
            self._take_events(events)
        elif LargeReading.here().held > MOST_HELD or len(self._waiting) + len(events) > BAD_EVENTS:
            self._lose("UPSTREAM_ERROR", FLOOD)
        else:
            self._waiting += events

    def _take_events(self, events: list[SseEvent]) -> None:
        for number, event in enumerate(events):
            self._note(event)
            if len(event.data) > LARGE:
                self._waiting = events[number + 1 :]
                self._read_large(event.data)
                return
            if event.data:
                self._take(read_messages(self._link, event.data))
            if self._told or (self.over and not self._ended):
                return

    def _read_large(self, data: bytes) -> None:
        """Have a large message read beside the loop; what comes behind it waits."""

        def read(outcome: Outcome) -> None:
            waiting, self._waiting = self._waiting, None
            self._take(taken(self._link, outcome))
            if waiting is None or self._told:
                return
            self._take_events(waiting)
            if self._ended:
                self._ended = False
                self.done()

        LargeReading.here().read(data, self._link.limits, self._link.limits.answer_members, read)

    def _note(self, event: SseEvent) -> None:
        self._resumes = 0
        if event.id is not None:
            self.last_event_id = header_text(event.id)
        if event.retry is not None:
            self._retry = event.retry / 1000

    def _take(self, messages: list[Message]) -> None:
        if messages:
            self._bad = 0
        else:
            self._bad += 1
            if self._bad > BAD_EVENTS:
                self._lose("UPSTREAM_ERROR", FLOOD)
                return
        for message in messages:
            if isinstance(message, Notification):
                self._notified(message)
            elif isinstance(message, Request):
                if self._link.owe(message):
                    self.sink.on_request(message)
            elif message.id == self.id or (message.id is None and isinstance(message, Failure)):
                self._answered(message)
                return
            else:
                self._link.complain(f"an answer to {message.id!r} came for request {self.id}")
        if self._json:
            self._lose("UPSTREAM_ERROR", "the server's answer is not the answer to this request")

    def _answered(self, answer: Result | Failure) -> None:
        if self.outgoing.method == "initialize":
            session = self._headers.get(b"mcp-session-id")
            self._link.offered_session = None if session is None else session.decode("latin-1")
        self._told = True
        self._link.drain(self)
        if self._link.finish(self):
            self.sink.on_response(answer)

    def _notified(self, notification: Notification) -> None:
        if notification.method in (PROGRESS, CANCELLED):
            # Progress says whose it is, and what is cancelled is a request of the server's own, whatever the stream.
            self._link.on_notification(notification)
        else:
            self.sink.on_notification(notification.method, notification.params)

    def _refused(self, body: bytes) -> None:
        """A status that is no answer by itself."""
        status = self._status
        if status in (301, 302, 303, 307, 308):
            self._redirected(status in (307, 308))
            return
        if status == 404 and self.session is not None:
            self._link.lose_session(self, self.session)
            return
        error = read_error(body)
        if status >= 400 and status not in (401, 403) and error is not None and speaks_of_recovery(status, error):
            self._answered(Failure(self.id, error))
            return
        if self._link.finish(self):
            self.sink.on_lost(http_fault(status, self._headers, body, error))

    def _redirected(self, whole: bool) -> None:
        """Go where the server points to, if that means to say the same again: other statuses ask for a GET."""
        location = self._headers.get(b"location", b"").decode("latin-1")
        self._redirects += 1
        if whole and self._redirects <= REDIRECTS and location and self._link.redirect(location):
            self._link.repeat(self)
            return
        self._lose(
            "UPSTREAM_ERROR", f"the server redirects to {location[:200]!r}", "configure that address, if it is right"
        )

    def _broken(self, why: str) -> None:
        """Sent, and the response came to an end without the answer."""
        if self.last_event_id and not self._link.modern and self._resumes < RESUMES:
            self._resumes += 1
            self._link.resume(self, self._retry)
            return
        self._lose("OUTCOME_UNKNOWN", why)

    def _lose(self, name: str, why: str, hint: str = "") -> None:
        self._link.lose(self, Fault(name, why, hint=hint))


class Receipt(Reply):
    """The response to what needs no answer: a notification, our answer to the server, the end of a session."""

    def __init__(self, link: HttpLink, what: str) -> None:
        self._link = link
        self._what = what
        self._status = 0
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        if status == 200 and headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            self.failed(Failed("the server answers what asks for no answer", sent=True))

    def body(self, data: bytes) -> None:
        pass

    def done(self) -> None:
        if self._status >= 400 and not (self._what == "DELETE" and self._status in (404, 405)):
            self._link.complain(f"{self._what} was refused: HTTP {self._status}", "told")
        self._settle()

    def failed(self, how: Failed) -> None:
        if not self.taken.done():
            self._link.complain(f"{self._what} was not taken: {how.why}", "told")
        self._link.drop(self)
        self._settle()

    def _settle(self) -> None:
        if not self.taken.done():
            self.taken.set_result(None)
