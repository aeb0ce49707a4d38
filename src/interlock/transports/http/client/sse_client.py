"""The client half of the transport of revision 2024-11-05: one stream for all messages of the server, and one address
for all messages to it. The address must have the origin of the stream: a server cannot redirect messages elsewhere.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import urljoin

from interlock.process.task_set import TaskSet
from interlock.protocols.mcp.meta import names_method
from interlock.protocols.oauth.challenges import read_challenge
from interlock.transports.http.client.authorized_calls import MAX_REFUSALS, Authorization, UnauthorizedCall
from interlock.transports.http.client.heads import HeadWriter
from interlock.transports.http.client.origin import split_url
from interlock.transports.http.client.pool import Guard, Pool
from interlock.transports.http.client.reading import BAD_EVENTS, FLOOD
from interlock.transports.http.client.refusals import MAX_ERROR_BYTES, RefusedResponse
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Listener
from interlock.transports.one_stream import OneStreamLink, Waiter
from interlock.transports.unread_answers import why_unread
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import BadMessage, decode, encode_failure
from interlock.wire.sse import EventReader, EventTooLarge, SseEvent
from interlock.wire.unread_ids import ids_in

POSTS: Final = 64
"""Connections that messages go out on."""


class SseLink(OneStreamLink):
    """A connection to a server over HTTP+SSE. Made by `open`.

    Complaints are of kind `message`, `stray`, `refused` and `undelivered`.
    """

    says = "http"

    def __init__(
        self,
        url: str,
        listener: Listener,
        headers: Mapping[str, str],
        limits: Limits,
        context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        super().__init__(listener, limits)
        self._authorization = authorization
        self._renewing = TaskSet()
        self._url = url
        self._origin, target = split_url(url)
        self._heads = HeadWriter(self._origin, target, headers)
        self._pool = Pool(self._origin, size=POSTS, queue=limits.pending, context=context, guard=guard)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stream = _Stream(self, limits)

    @classmethod
    async def open(
        cls,
        url: str,
        listener: Listener,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT,
        *,
        context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
        authorization: Authorization | None = None,
    ) -> SseLink:
        """Open the stream and wait until the server has named its address. Raises a `Fault`."""
        for attempt in range(MAX_REFUSALS + 1):
            link = cls(url, listener, headers or {}, limits, context, guard, authorization)
            if authorization is not None:
                await authorization.renew()
                link._heads.authorize(authorization.header)
            link._pool.submit(link._heads.get(None), link._stream)
            try:
                await link._ready
            except BaseException as cause:
                await link._pool.close()
                refused = _refused(cause, link._heads.authorization, again=attempt > 0)
                if authorization is None or refused is None or attempt == MAX_REFUSALS:
                    raise
                await authorization.refused(refused)
            else:
                return link
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        self._renewing.cancel()
        self.give_up(Fault("UPSTREAM_UNAVAILABLE", "the connection was closed"))
        await self._pool.close()

    # Reports of the stream and of the posts.

    def took(self, event: SseEvent) -> None:
        """One event of the stream."""
        if event.event == "endpoint":
            self._named(event.data.decode("utf-8", "replace").strip())
        elif event.data and event.event == "message":
            self._received(event.data)

    def give_up(self, fault: Fault) -> None:
        """The stream is over, and the conversation with it."""
        if self._fault is not None:
            return
        self._pool.drop(self._stream)
        self._lose_all(fault)
        if self._ready.done():
            self.listener.on_closed(fault)
        else:
            self._ready.set_exception(fault)

    def refused(self, post: _Post, waiter: Waiter | None, fault: Fault) -> None:
        """Handle a refused message. One that was refused for lack of a token had no effect, and is sent again."""
        refused = _refused(fault, post.authorization, again=post.refusals > 0)
        if refused is not None and self._authorization is not None and post.refusals < MAX_REFUSALS:
            again = self._post_again(self._authorization, refused, post.message, waiter, post.refusals + 1)
            self._renewing.begin(again)
            return
        if waiter is None:
            self._complain("undelivered", f"a message was refused: {fault.message}")
        elif self._forget(waiter.id):
            waiter.sink.on_lost(fault)

    def _named(self, address: str) -> None:
        if self._ready.done():
            self._complain("stray", "the server names its address twice")
            return
        try:
            origin, target = split_url(urljoin(self._url, address))
        except (Fault, ValueError):
            origin, target = None, ""
        if origin != self._origin:
            message = f"the server sends us to another origin: {address[:200]!r}"
            self.give_up(Fault("UPSTREAM_ERROR", message, quotes_server=True))
            return
        self._heads.redirect(target)
        self._ready.set_result(None)

    def _received(self, data: bytes) -> None:
        if len(data) > LARGE:
            read = partial(self._read, data)
            LargeReading.here().read(self, data, self._limits, self._limits.answer_members, read)
            return
        try:
            message: Outcome = decode(data, self._limits)
        except BadMessage as bad:
            message = bad.naming(bad.id, asks=bad.id is not None and names_method(data))
        self._read(data, message)

    def _read(self, data: bytes, outcome: Outcome) -> None:
        if self._fault is not None:
            return
        if isinstance(outcome, list):
            outcome = BadMessage("INVALID_REQUEST", "batches are not part of this revision")
        if not isinstance(outcome, BadMessage):
            self._stream.bad = 0
            self._take(outcome)
            return
        self._complain("message", outcome.message)
        self._stream.bad += 1
        if outcome.id is not None and outcome.asks:
            # An invalid request of the server. Its ids are not ours.
            self._write(encode_failure(outcome.id, outcome.render(ErrorDialect.OLD_MCP)))
        else:
            for id_ in ids_in(data, outcome.id):
                self.fail(id_, why_unread(outcome))

    # Sending.

    def _write(self, message: bytes) -> None:
        if self._fault is None:
            try:
                self._post(message, None)
            except Fault as fault:
                self._complain("undelivered", f"a message was not sent: {fault.message}")

    def _reached(self, waiter: Waiter) -> bool:
        return waiter.sent

    def _post(self, message: bytes, waiter: Waiter | None) -> None:
        authorization = self._authorization
        if authorization is not None and authorization.due:
            self._renewing.begin(self._post_again(authorization, None, message, waiter))
            return
        self._submit(message, waiter, 0)

    def _submit(self, message: bytes, waiter: Waiter | None, refusals: int) -> None:
        if self._authorization is not None:
            self._heads.authorize(self._authorization.header)
        self._pool.submit(self._heads.post(message), _Post(self, waiter, message, self._heads.authorization, refusals))

    async def _post_again(
        self,
        authorization: Authorization,
        refused: UnauthorizedCall | None,
        message: bytes,
        waiter: Waiter | None,
        refusals: int = 0,
    ) -> None:
        """Send a message with a fresh token. A request that cannot get one ends."""
        try:
            await (authorization.renew() if refused is None else authorization.refused(refused))
            self._submit(message, waiter, refusals)
        except Fault as fault:
            if waiter is not None and self._forget(waiter.id):
                waiter.sink.on_lost(fault)


class _Stream(Reply):
    """Takes the response to the GET."""

    def __init__(self, link: SseLink, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._events: EventReader | None = None
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = b""
        self.bad = 0

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status, self._headers = status, headers
        if status == 200 and headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
            self._events = EventReader(self._limits.message_bytes, "message_bytes")

    def body(self, data: bytes) -> None:
        if self._events is None:
            self._body = (self._body + data)[:MAX_ERROR_BYTES]
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
            self._link.give_up(RefusedResponse.of(self._status, self._headers, self._body).fault())
        else:
            self._link.give_up(Fault("UPSTREAM_UNAVAILABLE", "the server ended the stream"))

    def failed(self, how: ReplyFailed) -> None:
        self._link.give_up(Fault("UPSTREAM_UNAVAILABLE", how.why))


class _Post(Reply):
    """Takes the response to a message: only whether the server took it. The answer itself comes on the stream."""

    def __init__(self, link: SseLink, waiter: Waiter | None, message: bytes, authorization: str, refusals: int) -> None:
        self._link = link
        self._waiter = waiter
        self.message = message
        self.authorization = authorization
        self.refusals = refusals
        """How often the message was refused with other tokens."""
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status, self._headers = status, headers
        if self._waiter is not None:
            self._waiter.arrive()

    def body(self, data: bytes) -> None:
        self._body = (self._body + data)[:MAX_ERROR_BYTES]

    def done(self) -> None:
        if self._status < 400:
            return
        fault = RefusedResponse.of(self._status, self._headers, self._body).fault()
        self._link.refused(self, self._waiter, fault)

    def failed(self, how: ReplyFailed) -> None:
        if self._waiter is not None:
            name = "OUTCOME_UNKNOWN" if how.sent else "UPSTREAM_UNAVAILABLE"
            self._link.refused(self, self._waiter, Fault(name, how.why))


def _refused(cause: BaseException, sent: str, *, again: bool) -> UnauthorizedCall | None:
    """The refusal of a request for lack of a token or of scopes; None for any other failure."""
    status = cause.data.get("status") if isinstance(cause, Fault) else None
    if not isinstance(cause, Fault) or status not in (401, 403):
        return None
    challenge = read_challenge(str(cause.data.get("www_authenticate", "")))
    return UnauthorizedCall(status, challenge, sent, again) if status == 401 or challenge.insufficient_scope else None
