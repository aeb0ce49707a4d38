"""The client half of the transport of revision 2024-11-05: one stream on which everything comes, one address to which
everything goes. The address must be of the stream's own origin: a server cannot send us, or what we say, elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from interlock.protocols.mcp.meta import PROGRESS_TOKEN, with_meta
from interlock.transports.complaints import Complaints
from interlock.transports.http.channel import Failed, Ticket
from interlock.transports.http.heads import Heads
from interlock.transports.http.origin import split_url
from interlock.transports.http.pool import Pool
from interlock.transports.http.reading import BAD_EVENTS, FLOOD, http_fault, read_error
from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.wire.conversation import (
    Answered,
    Asked,
    Conversation,
    Progressed,
    Refused,
    Stray,
    Told,
    Withdrawn,
)
from interlock.wire.errors import ErrorObject, Fault, Tongue
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    EMPTY_OBJECT,
    Id,
    Request,
    encode_failure,
    encode_notification,
    encode_result,
    one_line,
)
from interlock.wire.sse import Event, EventReader, EventTooLarge

SWEEP: Final = 0.25
"""Seconds between two looks for passed deadlines, while something waits."""
POSTS: Final = 64
"""Connections that messages go out on."""
ERROR_BYTES: Final = 64 * 1024


class SseLink(Link):
    """A connection to a server over HTTP+SSE. Made by `open`."""

    def __init__(self, url: str, listener: Listener, headers: Mapping[str, str], limits: Limits) -> None:
        self.listener = listener
        self.complaints = Complaints()
        """Of kind `message`, `stray` and `told`."""
        self._url = url
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._origin, target = split_url(url)
        self._heads = Heads(self._origin, target, headers)
        self._pool = Pool(self._origin, size=POSTS, queue=limits.pending)
        self._conversation: Conversation[_Waiter] = Conversation(limits)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stream = _Stream(self, limits)
        self._sweeping = False
        self._fault: Fault | None = None

    @classmethod
    async def open(
        cls, url: str, listener: Listener, headers: Mapping[str, str] | None = None, limits: Limits = DEFAULT
    ) -> SseLink:
        """Open the stream and wait until the server has named its address. Raises a `Fault`."""
        link = cls(url, listener, headers or {}, limits)
        link._stream.ticket = link._pool.submit(link._heads.get(None), link._stream)
        try:
            await link._ready
        except BaseException:
            await link._pool.close()
            raise
        return link

    @property
    def pending(self) -> int:
        return self._conversation.waiting

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if self._fault is not None:
            raise Fault("UPSTREAM_UNAVAILABLE", self._fault.message)
        id_ = self._conversation.reserve()
        params = with_meta(outgoing.params, {PROGRESS_TOKEN: id_}) if outgoing.wants_progress else outgoing.params
        waiter = _Waiter(id_, outgoing, sink, outgoing.deadline - self._loop.time())
        body = self._conversation.ask(id_, outgoing.method, one_line(params), waiter, outgoing.deadline)
        try:
            self._post(body, waiter)
        except Fault:
            self._conversation.withdraw(id_)
            raise
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)
        return id_

    def cancel(self, handle: Id, reason: str) -> None:
        told = self._conversation.withdraw(handle, reason)
        if told is not None:
            self._tell(told)

    def extend(self, handle: Id, deadline: float) -> None:
        waiter = self._conversation.extend(handle, deadline)
        if waiter is not None:
            waiter.least = deadline

    def tell(self, method: str, params: bytes) -> None:
        self._tell(encode_notification(method, one_line(params)))

    def answer(self, id: Id, result: bytes) -> None:
        if self._conversation.settle(id):
            self._tell(encode_result(id, one_line(result)))

    def refuse(self, id: Id, error: ErrorObject) -> None:
        if self._conversation.settle(id):
            self._tell(encode_failure(id, error))

    async def close(self) -> None:
        self.give_up(Fault("UPSTREAM_UNAVAILABLE", "the connection was closed"))
        await self._pool.close()

    # What the stream and the posts report.

    def took(self, event: Event) -> None:
        """One event of the stream."""
        if event.event == "endpoint":
            self._named(event.data.decode("utf-8", "replace").strip())
        elif event.data and event.event == "message":
            self._received(event.data)

    def give_up(self, fault: Fault) -> None:
        """The stream is over, and the conversation with it."""
        if self._fault is not None:
            return
        self._fault = fault
        if self._stream.ticket is not None:
            self._pool.drop(self._stream.ticket)
        if not self._ready.done():
            self._ready.set_exception(fault)
            return
        for waiter in self._conversation.abandon():
            name = "OUTCOME_UNKNOWN" if waiter.sent else "UPSTREAM_UNAVAILABLE"
            waiter.sink.lost(Fault(name, fault.message))
        self.listener.closed(fault)

    def refused(self, waiter: _Waiter, fault: Fault) -> None:
        """A request was not taken."""
        if self._conversation.withdraw(waiter.id) is not None:
            waiter.sink.lost(fault)

    def complain(self, text: str, kind: str = "stray") -> None:
        """Report what the server should not have done."""
        told = self.complaints.note(kind, text)
        if told is not None:
            self.listener.spoke("http", told)

    def _named(self, address: str) -> None:
        if self._ready.done():
            self.complain("the server names its address twice")
            return
        try:
            origin, target = split_url(urljoin(self._url, address))
        except (Fault, ValueError):
            origin, target = None, ""
        if origin != self._origin:
            self.give_up(Fault("UPSTREAM_ERROR", f"the server sends us to another origin: {address[:200]!r}"))
            return
        self._heads.target = target
        self._ready.set_result(None)

    def _received(self, data: bytes) -> None:
        match self._conversation.receive(data):
            case Answered(waiter, answer):
                waiter.sink.answered(answer)
            case Progressed(waiter, params):
                self._progressed(waiter, params)
            case Told(notification):
                self.listener.notified(notification.method, notification.params)
            case Asked(request):
                self._asked(request)
            case Withdrawn():
                pass
            case Stray(reason):
                self.complain(reason)
            case Refused(bad):
                self.complain(bad.message, "message")
                self._stream.bad += 1
                if bad.id is not None:
                    self._tell(encode_failure(bad.id, bad.render(Tongue.OLD_MCP)))
                return
        self._stream.bad = 0

    def _asked(self, request: Request) -> None:
        if request.method == "ping":
            self.answer(request.id, EMPTY_OBJECT)
        else:
            self.listener.asked(request)

    def _progressed(self, waiter: _Waiter, params: bytes) -> None:
        outgoing = waiter.outgoing
        if outgoing.max_deadline is not None:
            deadline = min(self._loop.time() + waiter.patience, outgoing.max_deadline)
            self._conversation.extend(waiter.id, max(waiter.least, deadline))
        if outgoing.wants_progress:
            waiter.sink.notified("notifications/progress", params)

    # Sending.

    def _tell(self, message: bytes) -> None:
        if self._fault is None:
            try:
                self._post(message, None)
            except Fault as fault:
                self.complain(f"a message was not sent: {fault.message}", "told")

    def _post(self, message: bytes, waiter: _Waiter | None) -> None:
        post = _Post(self, waiter)
        post.ticket = self._pool.submit(self._heads.post(message), post)

    def _sweep(self) -> None:
        self._sweeping = False
        for id_, waiter in self._conversation.expire(self._loop.time()):
            self.cancel(id_, "the deadline passed")
            waiter.sink.lost(Fault("UPSTREAM_TIMEOUT", f"no answer to {waiter.outgoing.method} in time"))
        if self.pending and not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)


class _Waiter:
    """One request's place in the conversation."""

    __slots__ = ("id", "least", "outgoing", "patience", "sent", "sink")

    def __init__(self, id: int, outgoing: Outgoing, sink: Sink, patience: float) -> None:
        self.id = id
        self.outgoing = outgoing
        self.sink = sink
        self.patience = patience
        self.least = 0.0
        self.sent = False


class _Stream:
    """Takes the response to the GET."""

    def __init__(self, link: SseLink, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._events: EventReader | None = None
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._said = b""
        self.ticket: Ticket | None = None
        self.bad = 0

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status, self._headers = status, headers
        if status == 200 and headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
            self._events = EventReader(self._limits.message_bytes)

    def body(self, data: bytes) -> None:
        if self._events is None:
            self._said = (self._said + data)[:ERROR_BYTES]
            return
        try:
            for event in self._events.feed(data):
                self._link.took(event)
        except EventTooLarge as cause:
            self._link.give_up(Fault("UPSTREAM_ERROR", str(cause)))
        if self.bad > BAD_EVENTS:
            self._link.give_up(Fault("UPSTREAM_ERROR", FLOOD))

    def done(self) -> None:
        if self._events is None:
            self._link.give_up(http_fault(self._status, self._headers, self._said, read_error(self._said)))
        else:
            self._link.give_up(Fault("UPSTREAM_UNAVAILABLE", "the server ended the stream"))

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        self.head(200, headers)
        self.body(body)
        self.done()

    def failed(self, how: Failed) -> None:
        self._link.give_up(Fault("UPSTREAM_UNAVAILABLE", how.why))


class _Post:
    """Takes the response to a message: only whether it was taken. What it was about comes on the stream."""

    def __init__(self, link: SseLink, waiter: _Waiter | None) -> None:
        self._link = link
        self._waiter = waiter
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._said = b""
        self.ticket: Ticket | None = None

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status, self._headers = status, headers
        if self._waiter is not None:
            self._waiter.sent = True

    def body(self, data: bytes) -> None:
        self._said = (self._said + data)[:ERROR_BYTES]

    def done(self) -> None:
        if self._status < 400:
            return
        fault = http_fault(self._status, self._headers, self._said, read_error(self._said))
        if self._waiter is not None:
            self._link.refused(self._waiter, fault)
        else:
            self._link.complain(f"a message was refused: {fault.message}", "told")

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        self.head(200, headers)
        self.body(body)
        self.done()

    def failed(self, how: Failed) -> None:
        if self._waiter is not None:
            name = "OUTCOME_UNKNOWN" if how.sent else "UPSTREAM_UNAVAILABLE"
            self._link.refused(self._waiter, Fault(name, how.why))
