"""One request over HTTP, and how it ends: with its answer, as a refusal, sent again, resumed, or lost.

The response is one body of JSON, a stream of events (`response_events.py`), or a refusal. A request that may have had
an effect is not sent twice.
"""

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
    ReadingLink,
    ReadMessages,
    read_messages,
    taken,
)
from interlock.transports.http.client.refusals import (
    LACKS_TOKEN,
    MAX_ERROR_BYTES,
    REDIRECTS,
    SAME_METHOD,
    RefusedResponse,
)
from interlock.transports.http.client.reply import Reply, ReplyConnection, ReplyFailed
from interlock.transports.http.client.response_events import ResponseEvents
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Outgoing, Sink
from interlock.transports.unread_answers import why_unread
from interlock.wire.conversation import CANCELLED_METHOD, NAMES_REQUEST, PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import over_message_bytes
from interlock.wire.messages import BadMessage, Failure, Id, Notification, Request, Result

_NAMING: Final = NAMES_REQUEST | {PROGRESS, CANCELLED_METHOD}
_NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})

MAX_REDIRECTS: Final = 3

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
    least: float = 0.0
    """The deadline is never earlier than this."""
    _refusals: int = 0
    """How often the server refused its access token."""
    _status: int = 0
    _headers: Mapping[bytes, bytes] = _NO_HEADERS
    _json: bool = False
    _events: ResponseEvents | None = None
    _streaming: bool = False
    """Whether the response is a stream of events."""
    _size: int = 0
    _redirects: int = 0
    _repeated: bool = False
    _bad: int = 0
    answered: bool = False
    """Whether its answer came. The rest of its stream is ignored."""
    _unread: BadMessage | None = None
    """The last event that could not be read and named no request."""
    _chunks: list[bytes] | None = None

    @property
    def streams(self) -> bool:
        return bool(self.outgoing.accepts)

    @property
    def last_event_id(self) -> str | None:
        """Where to resume its response stream."""
        return None if self._events is None else self._events.last_id

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
        self._streaming, self._chunks, self._size = False, None, 0

    # channel.Reply

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        self._headers = headers
        kind = headers.get(b"content-type", b"").lower()
        streams = status == 200 and kind.startswith(b"text/event-stream")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self.link.limits.message_bytes and not streams:
            self.give_up(over_message_bytes("its answer", self.link.limits.message_bytes))
            return
        if status != 200:
            return
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            self.give_up("the server compressed its answer, and the request did not allow that")
            return
        if kind.startswith(b"application/json"):
            self._json = True
        elif streams:
            self._streaming = True
            if self._events is None:
                self._events = ResponseEvents(self.link.limits.message_bytes)
            else:
                self._events.begin_again()

    def body(self, data: bytes) -> None:
        if self._streaming and self._events is not None:
            self._events.feed(self, data)
            return
        self._size += len(data)
        if self._size <= (self.link.limits.message_bytes if self._json else MAX_ERROR_BYTES):
            if self._chunks:
                self._chunks.append(data)
            else:
                self._chunks = [data]
        elif self._json:
            self.give_up(over_message_bytes("its answer", self.link.limits.message_bytes))

    def done(self) -> None:
        if self._streaming and self._events is not None:
            self._events.end(self)
            return
        body, self._chunks = b"".join(self._chunks or ()), None
        if self._json and len(body) > LARGE:

            def read(outcome: Outcome) -> None:
                self.take(taken(self.link, outcome, body))

            link = self.link
            LargeReading.here().read(link, body, link.limits, link.limits.answer_members, read)
        elif self._json:
            self.take(read_messages(self.link, body))
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

    # response_events.EventTaker

    def take_end(self) -> None:
        if not self.answered:
            self._broken("the response stream ended without the answer")

    def give_up(self, why: str) -> None:
        self.link.lose(self, Fault("UPSTREAM_ERROR", why))

    def take(self, came: ReadMessages) -> None:
        if came.messages:
            self._bad = 0
        else:
            self._bad += 1
            if self._bad > BAD_EVENTS:
                self.give_up(FLOOD)
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
            self.give_up("the server's answer is not the answer to this request")

    def _take_unread(self, bad: BadMessage, ids: frozenset[int]) -> None:
        """A body is the answer to this request. An event is, if it names it."""
        if self._json or self.id in ids:
            self.answered = True
            self._lose_quoting("UPSTREAM_ERROR", why_unread(bad))
        elif not ids:
            self._unread = bad

    def _take_answer(self, answer: Result | Failure) -> None:
        if self.outgoing.method == "initialize":
            session = self._headers.get(b"mcp-session-id")
            self.link.offer_session(None if session is None else session.decode("latin-1"))
        self.answered = True
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
        """End a request whose response is no answer, or send it again."""
        refused = RefusedResponse.of(self._status, self._headers, body)
        tokens = self.link.authorized if refused.status in LACKS_TOKEN else None
        if refused.status in REDIRECTS:
            self._redirected(refused)
        elif self.session is not None and refused.loses_session:
            self.link.lose_session(self, self.session)
        elif tokens is not None and tokens.refused(self, refused.status, refused.challenge):
            return
        elif (error := refused.answer) is not None:
            self._take_answer(Failure(self.id, error))
        elif self.link.finish(self):
            self.sink.on_lost(refused.fault())

    def _redirected(self, refused: RefusedResponse) -> None:
        """Follow a redirect that keeps method and body, on the same origin."""
        location = refused.location
        self._redirects += 1
        may_follow = location and refused.status in SAME_METHOD and self._redirects <= MAX_REDIRECTS
        if may_follow and self.link.redirect(location):
            self.link.repeat(self)
            return
        self._lose_quoting(
            "UPSTREAM_ERROR", f"the server redirects to {location[:200]!r}", "configure that address, if it is right"
        )

    def _broken(self, why: str) -> None:
        """Resume or end a request whose response ended without the answer."""
        events = self._events
        if events is not None and not self.link.modern and events.may_resume():
            self.link.resume(self, events.retry_s)
            return
        if self._unread is None:
            self._lose("OUTCOME_UNKNOWN", why)
        else:
            self._lose_quoting("OUTCOME_UNKNOWN", f"{why}: {why_unread(self._unread)}")

    def _lose(self, name: str, why: str) -> None:
        self.link.lose(self, Fault(name, why))

    def _lose_quoting(self, name: str, why: str, hint: str = "") -> None:
        """The same, where the reason holds an address that the server names, or a part of its answer."""
        self.link.lose(self, Fault(name, why, hint=hint, quotes_server=True))
