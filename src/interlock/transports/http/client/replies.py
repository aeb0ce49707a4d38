"""The response to a request over HTTP: one body of JSON, a stream of events, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.answers import plain_answer
from interlock.protocols.mcp.methods import IDEMPOTENT
from interlock.transports.http.client.reading import (
    BAD_EVENTS,
    FLOOD,
    RETRY_SECONDS,
    ReadingLink,
    ReadMessages,
    header_text,
    http_fault,
    is_about_session,
    read_error,
    read_messages,
    speaks_of_recovery,
    taken,
)
from interlock.transports.http.client.reply import Reply, ReplyConnection, ReplyFailed
from interlock.transports.large_reading import MAX_BUFFERED_BYTES, LargeReading
from interlock.transports.link import Outgoing, Sink
from interlock.transports.unread_answers import why_unread
from interlock.wire.conversation import CANCELLED, NAMES_REQUEST, PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import over_message_bytes
from interlock.wire.messages import BadMessage, Failure, Id, Notification, Request, Result
from interlock.wire.sse import EventReader, EventTooLarge, SseEvent

ERROR_BYTES: Final = 64 * 1024
"""Upper bound for the body of a refusal."""

_NAMING: Final = NAMES_REQUEST | {PROGRESS, CANCELLED}
_NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})

MAX_WAITING_MESSAGES: Final = 4
"""Upper bound for the bytes of events behind a large one, in messages of the largest size."""

RESUMES: Final = 10
"""How often in a row a broken stream is resumed without a new event."""

REDIRECTS: Final = 3

REPEATED: Final = IDEMPOTENT | {"initialize"}
"""Methods that are sent again if a kept connection turns out to be closed. A second `initialize` may leave an unused
session; without it, the first request to a restarted server would fail."""


class TokenRefusals(Protocol):
    """Sends requests again that lacked a good access token."""

    def refused(self, call: HttpCall, status: int, header: str) -> bool:
        """Take over a request that the server refused. False where another token would not help."""


class CallLink(ReadingLink, Protocol):
    """The link that a call was sent on, as the call sees it."""

    calls: dict[Id, HttpCall]
    """The requests that wait for an answer."""

    @property
    def authorized(self) -> TokenRefusals | None:
        """Gets other access tokens for refused requests; None where there is none to get."""

    @property
    def modern(self) -> bool:
        """Whether the server speaks the stateless era."""

    def offer_session(self, session_id: str | None) -> None:
        """Note the session id that came with the answer to `initialize`, or that there is none."""

    def finish(self, call: HttpCall) -> bool:
        """The request is over. False when it was over already."""

    def lose(self, call: HttpCall, fault: Fault) -> None:
        """End a request without an answer."""

    def lose_session(self, call: HttpCall, session: str) -> None:
        """The server no longer knows the session that a request was sent in."""

    def drain(self, reply: Reply) -> None:
        """The answer has come; the rest of the response is not wanted."""

    def repeat(self, call: HttpCall) -> None:
        """Send a request again that cannot have had an effect, on a connection of its own."""

    def resume(self, call: HttpCall, delay: float) -> None:
        """Ask for the rest of a broken response stream, after a while (2025-11-25, Resumability and Redelivery)."""

    def redirect(self, location: str) -> bool:
        """Use another path of the server. False when it points to another origin, which is never followed."""

    def owe(self, request: Request) -> bool:
        """Note a request of the server. False when the link dealt with it: a ping, a repeated id, one too many. The
        stateless era has none, and they get no answer (2026-07-28, Streamable HTTP: Sending Messages)."""

    def on_notification(self, notification: Notification) -> None:
        """Take a notification that is not about this request. Progress goes to the request that it names."""


class HttpCall(msgspec.Struct, eq=False):
    """One request of ours, and its response as it comes (`channel.Reply`)."""

    link: CallLink
    outgoing: Outgoing
    sink: Sink
    id: int
    params: bytes
    """As they went out."""
    deadline: float
    session: str | None = None
    """The session that it was sent in (handshake era)."""
    authorization: str = ""
    """The `Authorization` header that it was sent with."""
    connection: ReplyConnection | None = None
    payload: bytes = b""
    over: bool = True
    last_event_id: str | None = None
    least: float = 0.0
    """The deadline is never earlier than this."""
    _refusals: int = 0
    """How often the server refused its access token."""
    _status: int = 0
    _headers: Mapping[bytes, bytes] = _NO_HEADERS
    _json: bool = False
    _events: EventReader | None = None
    _size: int = 0
    _retry: float = RETRY_SECONDS
    _resumes: int = 0
    _redirects: int = 0
    _repeated: bool = False
    _bad: int = 0
    _answered: bool = False
    """Whether its answer came. The rest of its stream is ignored."""
    _unread: BadMessage | None = None
    """The last event that could not be read and named no request."""
    _chunks: list[bytes] | None = None
    _waiting: list[SseEvent] | None = None
    """Events behind a large one that is being read; None where none is."""
    _waiting_bytes: int = 0
    _ended: bool = False
    """Whether the stream ended meanwhile."""

    @property
    def streams(self) -> bool:
        return bool(self.outgoing.accepts)

    def extend(self, deadline: float) -> None:
        """Wait until then, at least."""
        self.deadline = self.least = deadline

    def move_deadline(self, now: float) -> None:
        """Wait longer, since the request is getting on, up to its last deadline."""
        outgoing = self.outgoing
        if outgoing.max_deadline is not None:
            self.deadline = max(self.least, min(now + outgoing.patience, outgoing.max_deadline))

    def count_refusal(self) -> int:
        """The server refused its access token: how often by now."""
        self._refusals += 1
        return self._refusals

    def send_again(self, session: str | None, authorization: str) -> None:
        """It is sent once more, in this session and with this token."""
        self.session, self.authorization = session, authorization

    def renew(self) -> None:
        """Forget the response so far: another follows."""
        self._status, self._headers, self._json = 0, _NO_HEADERS, False
        self._events, self._chunks, self._size = None, None, 0

    # channel.Reply

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        self._headers = headers
        kind = headers.get(b"content-type", b"").lower()
        streams = status == 200 and kind.startswith(b"text/event-stream")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self.link.limits.message_bytes and not streams:
            self._lose("UPSTREAM_ERROR", over_message_bytes("its answer", self.link.limits.message_bytes))
            return
        if status != 200:
            return
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            self._lose("UPSTREAM_ERROR", "the server compressed its answer, and the request did not allow that")
            return
        if kind.startswith(b"application/json"):
            self._json = True
        elif streams:
            self._events = EventReader(self.link.limits.message_bytes, "message_bytes")

    def body(self, data: bytes) -> None:
        if self._events is not None:
            if not self._answered:
                self._read_events(self._events, data)
            return
        self._size += len(data)
        if self._size <= (self.link.limits.message_bytes if self._json else ERROR_BYTES):
            if self._chunks:
                self._chunks.append(data)
            else:
                self._chunks = [data]
        elif self._json:
            self._lose("UPSTREAM_ERROR", over_message_bytes("its answer", self.link.limits.message_bytes))

    def done(self) -> None:
        if self._events is not None:
            if self._waiting is not None:
                self._ended = True
            elif not self._answered:
                self._broken("the response stream ended without the answer")
            return
        body, self._chunks = b"".join(self._chunks or ()), None
        if self._json and len(body) > LARGE:
            self._read_large(body)
        elif self._json:
            self._take(read_messages(self.link, body))
        else:
            self._refused(body)

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        link = self.link
        answer = plain_answer(body) if len(body) <= link.limits.message_bytes else None
        if answer is None or answer.id != self.id or self.outgoing.method == "initialize":
            self.head(200, headers)
            self.body(body)
            self.done()
        elif link.calls.pop(self.id, None) is not None:
            self.sink.on_response(answer)

    def failed(self, how: ReplyFailed) -> None:
        if not how.sent:
            self._lose("UPSTREAM_UNAVAILABLE", how.why)
        elif how.reused and not how.began and not self._repeated and self.outgoing.method in REPEATED:
            self._repeated = True
            self.link.repeat(self)
        else:
            self._broken(how.why)

    def _read_events(self, reader: EventReader, data: bytes) -> None:
        try:
            events = reader.feed(data)
        except EventTooLarge as cause:
            self._lose("UPSTREAM_ERROR", str(cause))
            return
        if self._waiting is None:
            self._take_events(events)
            return
        self._waiting += events
        self._waiting_bytes += sum(len(event.data) for event in events)
        if (
            self._waiting_bytes > MAX_WAITING_MESSAGES * self.link.limits.message_bytes
            or LargeReading.here().buffered_bytes > MAX_BUFFERED_BYTES
            or len(self._waiting) > BAD_EVENTS
        ):
            self._waiting = []
            self._lose("UPSTREAM_ERROR", "the server sends more than can be read")

    def _take_events(self, events: list[SseEvent]) -> None:
        for number, event in enumerate(events):
            self._note(event)
            if len(event.data) > LARGE:
                self._waiting = events[number + 1 :]
                self._waiting_bytes = sum(len(each.data) for each in self._waiting)
                self._read_large(event.data)
                return
            if event.data:
                self._take(read_messages(self.link, event.data))
            if self._answered or (self.over and not self._ended):
                return

    def _read_large(self, data: bytes) -> None:
        """Have a large message read beside the loop. Events behind it wait."""

        def read(outcome: Outcome) -> None:
            waiting, self._waiting = self._waiting, None
            self._take(taken(self.link, outcome, data))
            if waiting is None or self._answered:
                return
            self._take_events(waiting)
            if self._ended:
                self._ended = False
                self.done()

        LargeReading.here().read(data, self.link.limits, self.link.limits.answer_members, read)

    def _note(self, event: SseEvent) -> None:
        self._resumes = 0
        if event.id is not None:
            self.last_event_id = header_text(event.id)
        if event.retry is not None:
            self._retry = event.retry / 1000

    def _take(self, came: ReadMessages) -> None:
        if came.messages:
            self._bad = 0
        else:
            self._bad += 1
            if self._bad > BAD_EVENTS:
                self._lose("UPSTREAM_ERROR", FLOOD)
                return
        for message in came.messages:
            if isinstance(message, Notification):
                self._notified(message)
            elif isinstance(message, Request):
                if self.link.owe(message):
                    self.sink.on_request(message)
            elif message.id == self.id or (message.id is None and isinstance(message, Failure)):
                self._take_answer(message)
                return
            else:
                self.link.complain(f"an answer to {message.id!r} came for request {self.id}")
        if came.unread is not None:
            self._take_unread(came.unread, came.unread_ids)
        elif self._json:
            self._lose("UPSTREAM_ERROR", "the server's answer is not the answer to this request")

    def _take_unread(self, bad: BadMessage, ids: frozenset[int]) -> None:
        """A body is the answer to this request. An event is, if it names it."""
        if self._json or self.id in ids:
            self._answered = True
            self._lose_quoting("UPSTREAM_ERROR", why_unread(bad))
        elif not ids:
            self._unread = bad

    def _take_answer(self, answer: Result | Failure) -> None:
        if self.outgoing.method == "initialize":
            session = self._headers.get(b"mcp-session-id")
            self.link.offer_session(None if session is None else session.decode("latin-1"))
        self._answered = True
        self.link.drain(self)
        if self.link.finish(self):
            self.sink.on_response(answer)

    def _notified(self, notification: Notification) -> None:
        if notification.method in _NAMING:
            # These name their request. A cancellation concerns a request of the server, whichever stream it is on.
            self.link.on_notification(notification)
        else:
            self.sink.on_notification(notification.method, notification.params)

    def _refused(self, body: bytes) -> None:
        """End a request whose response has an error status."""
        status = self._status
        if status in (301, 302, 303, 307, 308):
            self._redirected(status in (307, 308))
            return
        error = read_error(body)
        if self.session is not None and (status == 404 or (status == 400 and is_about_session(error))):
            self.link.lose_session(self, self.session)
            return
        if status in (401, 403) and self.link.authorized is not None:
            challenge = self._headers.get(b"www-authenticate", b"").decode("latin-1")
            if self.link.authorized.refused(self, status, challenge):
                return
        if status >= 400 and status not in (401, 403) and error is not None and speaks_of_recovery(status, error):
            self._take_answer(Failure(self.id, error))
            return
        if self.link.finish(self):
            self.sink.on_lost(http_fault(status, self._headers, body, error))

    def _redirected(self, whole: bool) -> None:
        """Follow a redirect that keeps method and body; other redirects ask for a GET."""
        location = self._headers.get(b"location", b"").decode("latin-1")
        self._redirects += 1
        if whole and self._redirects <= REDIRECTS and location and self.link.redirect(location):
            self.link.repeat(self)
            return
        self._lose_quoting(
            "UPSTREAM_ERROR", f"the server redirects to {location[:200]!r}", "configure that address, if it is right"
        )

    def _broken(self, why: str) -> None:
        """Resume or end a request whose response ended without the answer."""
        if self.last_event_id and not self.link.modern and self._resumes < RESUMES:
            self._resumes += 1
            self.link.resume(self, self._retry)
            return
        if self._unread is None:
            self._lose("OUTCOME_UNKNOWN", why)
        else:
            self._lose_quoting("OUTCOME_UNKNOWN", f"{why}: {why_unread(self._unread)}")

    def _lose(self, name: str, why: str, hint: str = "") -> None:
        self.link.lose(self, Fault(name, why, hint=hint))

    def _lose_quoting(self, name: str, why: str, hint: str = "") -> None:
        """The same, where the reason holds an address that the server names, or a part of its answer."""
        self.link.lose(self, Fault(name, why, hint=hint, quotes_server=True))
