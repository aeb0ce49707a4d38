"""The client half of Streamable HTTP: a `Link` to a server at a URL, in either era.

Each request is a POST of its own, so the messages on its response belong to it. A request that may have had an effect
is never sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from interlock.protocols.mcp.revisions import Revision
from interlock.transports.http.client.authorized_calls import Authorization, AuthorizedCalls
from interlock.transports.http.client.heads import HeadWriter
from interlock.transports.http.client.http_call import HttpCall
from interlock.transports.http.client.origin import split_url
from interlock.transports.http.client.pool import Guard, Pool
from interlock.transports.http.client.posts import Posts
from interlock.transports.http.client.reply import Reply
from interlock.transports.http.client.server_messages import HttpServerMessages
from interlock.transports.http.client.sse_client import SseLink
from interlock.transports.http.client.standing_stream import StandingStream
from interlock.transports.link import Link, Listener, Outgoing, SessionRecovery, Sink
from interlock.transports.violation_log import ViolationLog
from interlock.wire.cancellation import withdrawal
from interlock.wire.conversation import CANCELLED_METHOD, PROGRESS
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    Id,
    Notification,
    Request,
    encode_failure,
    encode_notification,
    encode_result,
)

SWEEP: Final = 0.25
"""The least number of seconds between two checks of the deadlines."""

CLOSE_SECONDS: Final = 2.0
"""How long the server may take to end its session."""


class HttpLink(Link):
    """A connection to a server over HTTP. The handshake settles `revision` and `session_id`."""

    def __init__(
        self,
        url: str,
        listener: Listener,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT,
        connections: int = 256,
        context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self.listener = listener
        self.limits = limits
        self.complaints = ViolationLog(listener, "http")
        """Of kind `message`, `stray` and `undelivered`."""
        self.offered_session: str | None = None
        """The session id that came with the answer to `initialize`."""
        self._url = url
        self._headers = dict(headers or {})
        self._context, self._guard = context, guard
        self._origin, target = split_url(url)
        self._heads = HeadWriter(self._origin, target, headers or {})
        self._pool = Pool(self._origin, size=connections, queue=limits.pending, context=context, guard=guard)
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self.calls: dict[Id, HttpCall] = {}
        """The requests that wait for an answer."""
        self._resuming: dict[HttpCall, asyncio.TimerHandle] = {}
        """Requests whose broken streams are asked for again in a moment."""
        self._authorization = authorization
        self.authorized = None if authorization is None else AuthorizedCalls(self, self._heads, authorization)
        """The requests that wait for an access token; None where they carry none that can be renewed."""
        self._posts = Posts(self.complaints, self._pool, self._heads)
        self._server_messages = HttpServerMessages(self)
        self._standing: StandingStream | None = None
        self._recovery: SessionRecovery | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_at = math.inf
        self._closed = False

    @property
    def revision(self) -> Revision | None:
        """The protocol revision; None before it is known."""
        return self._heads.revision

    def speak(self, revision: Revision | None) -> None:
        """Speak this revision from now on."""
        self._heads.speak(revision)

    @property
    def session_id(self) -> str | None:
        """The session that requests belong to (handshake era)."""
        return self._heads.session_id

    def join_session(self, session_id: str | None) -> None:
        """Send requests in this session from now on, or in none. Raises UPSTREAM_ERROR."""
        self._heads.join_session(session_id)

    def offer_session(self, session_id: str | None) -> None:
        """Note the session id that came with the answer to `initialize`, or that there is none."""
        self.offered_session = session_id

    @property
    def modern(self) -> bool:
        """Whether the stateless era is spoken."""
        revision = self._heads.revision
        return revision is not None and revision.modern

    @property
    def untaken(self) -> int:
        """How many notifications and answers the server did not accept."""
        return self._posts.untaken

    @property
    def pending(self) -> int:
        return len(self.calls)

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if not outgoing.patience and outgoing.max_deadline is not None:
            outgoing.be_patient(outgoing.deadline - self._loop.time())
        calls = self.calls
        if self._closed or len(calls) >= self.limits.pending:
            raise self._cannot_send()
        id_ = self._last_id = self._last_id + 1
        method, heads = outgoing.method, self._heads
        params = outgoing.params
        if outgoing.rest is not None:
            params = b'%b"progressToken":%d%b' % (params, id_, outgoing.rest)
        elif outgoing.wants_progress:
            params = outgoing.with_token(id_)
        session = heads.session if method != "initialize" else None
        authorized, authorization, sent = self.authorized, self._authorization, heads.sent_authorization
        if authorization is not None and authorization.idle and not sent:
            authorized = None
        ready = authorized is None or authorized.ready()
        sent = sent if authorized is None else heads.authorization
        call = calls[id_] = HttpCall(self, outgoing, sink, id_, params, outgoing.deadline, session, sent)
        try:
            if authorized is not None and not ready:
                authorized.hold(call)
            else:
                self._pool.submit(heads.request(id_, method, params, outgoing.name, outgoing.param_headers), call)
        except Fault:
            del calls[id_]
            raise
        if outgoing.deadline < self._sweep_at:
            self._sweep_by(outgoing.deadline)
        return id_

    def _cannot_send(self) -> Fault:
        if self._closed:
            return Fault("UPSTREAM_UNAVAILABLE", "the connection was closed")
        return Fault("RESOURCE_EXHAUSTED", f"{self.limits.pending} requests wait already", retry_after_ms=1000)

    def cancel(self, handle: Id, reason: str) -> None:
        call = self.calls.get(handle)
        if call is not None:
            self._withdraw(call, reason)

    def extend(self, handle: Id, deadline: float) -> None:
        call = self.calls.get(handle)
        if call is not None:
            call.extend(deadline)

    def hold(self, handle: Id, *, on: bool) -> None:
        call = self.calls.get(handle)
        if call is not None and call.connection is not None and call.streams:
            call.connection.hold(on=on)

    def tell(self, method: str, params: bytes) -> None:
        self.post(encode_notification(method, params), method)

    def answer(self, id: Id, result: bytes) -> None:
        if self._server_messages.settle(id):
            self.post(encode_result(id, result))

    def refuse(self, id: Id, error: ErrorObject) -> None:
        if self._server_messages.settle(id):
            self.post(encode_failure(id, error))

    async def legacy_sse(self) -> SseLink:
        """The same server by the transport of revision 2024-11-05, for one that takes no POST at this address."""
        return await SseLink.open(
            self._url,
            self.listener,
            self._headers,
            self.limits,
            context=self._context,
            guard=self._guard,
            authorization=self._authorization,
        )

    async def settled(self) -> None:
        """Wait until the server has accepted every notification so far."""
        if self.authorized is not None:
            await self.authorized.settled()
        await self._posts.settled()

    def listen(self, anew: bool = False) -> None:
        """Open the stream for messages that belong to no request (handshake era), and keep it open until the link
        closes.

        `anew` after a new session was opened: the old stream belonged to the old one.
        """
        if anew and self._standing is not None:
            self._standing.stop()
            self._standing = None
        if self._standing is None and not self._closed:
            self._standing = StandingStream(self)
            self._standing.open()

    async def listening(self, within: float) -> None:
        """Wait until the server has answered the GET of that stream, but not for long: some answer with the first
        event only."""
        if self._standing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._standing.answered.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.authorized is not None:
            self.authorized.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._standing is not None:
            self._standing.stop()
        for call in list(self.calls.values()):
            sent = call.connection is not None
            name = "OUTCOME_UNKNOWN" if sent else "UPSTREAM_UNAVAILABLE"
            self.lose(call, Fault(name, "the connection was closed"))
        if self.session_id is not None and not self.modern:
            self._posts.end_session()
        await self._posts.settled(CLOSE_SECONDS)
        await self._pool.close()
        self.listener.on_closed(Fault("UPSTREAM_UNAVAILABLE", "the connection was closed"))

    # Calls and streams use these (`http_call.CallLink`, `standing_stream.StreamOpener`).

    def finish(self, call: HttpCall) -> bool:
        if self.calls.pop(call.id, None) is None:
            return False
        if self._resuming and (timer := self._resuming.pop(call, None)) is not None:
            timer.cancel()
        return True

    def lose(self, call: HttpCall, fault: Fault) -> None:
        if self.finish(call):
            self._pool.drop(call)
            call.sink.on_lost(fault)

    def recover_with(self, recovery: SessionRecovery) -> None:
        """Hand requests that failed because their session was lost to `recovery`."""
        self._recovery = recovery

    def lose_session(self, call: HttpCall, session: str) -> None:
        if not self.finish(call):
            return
        fault = Fault("SESSION_UNKNOWN", "the server no longer knows the session")
        if self._recovery is None or not self._recovery.session_lost(call.id, call.outgoing, call.sink, session):
            call.sink.on_lost(fault)

    def drain(self, reply: Reply) -> None:
        self._pool.drain(reply)

    def drop(self, reply: Reply) -> None:
        self._pool.drop(reply)

    def repeat(self, call: HttpCall) -> None:
        self._submit(call, self._payload(call), fresh=True)

    def resume(self, call: HttpCall, delay: float) -> None:
        self._resuming[call] = self._loop.call_later(delay, self._resume, call)

    def open_stream(self, standing: Reply, last_event_id: str | None) -> None:
        if self.authorized is not None and not self.authorized.ready():
            self.authorized.hold_stream(standing, last_event_id)
        else:
            self.send_stream(standing, last_event_id)

    def send_stream(self, standing: Reply, last_event_id: str | None) -> None:
        if not self._closed:
            self._pool.submit(self._heads.get(last_event_id), standing)

    def redirect(self, location: str) -> bool:
        try:
            origin, target = split_url(urljoin(self._url, location))
        except (Fault, ValueError):
            return False
        if origin != self._origin:
            return False
        self._heads.redirect(target)
        return True

    def progressed(self, call: HttpCall, params: bytes) -> None:
        """Move the deadline of a request that made progress, up to its last deadline."""
        self.move_deadline(call)
        if call.outgoing.wants_progress:
            call.sink.on_notification(PROGRESS, params)

    def move_deadline(self, call: HttpCall) -> None:
        call.move_deadline(self._loop.time())

    def owe(self, request: Request) -> bool:
        return self._server_messages.owe(request)

    def on_notification(self, notification: Notification) -> None:
        self._server_messages.on_notification(notification)

    def refuse_unread(self, id: Id, error: ErrorObject) -> None:
        if not self.modern:
            self.post(encode_failure(id, error))

    def complain(self, text: str, kind: str = "stray") -> None:
        self.complaints.report(kind, text)

    # How requests go out and end.

    def _payload(self, call: HttpCall) -> bytes:
        outgoing, heads = call.outgoing, self._heads
        call.send_again(heads.session if outgoing.method != "initialize" else None, heads.authorization)
        return heads.request(call.id, outgoing.method, call.params, outgoing.name, outgoing.param_headers)

    def _submit(self, call: HttpCall, payload: bytes, fresh: bool = False) -> None:
        call.renew()
        try:
            self._pool.submit(payload, call, fresh=fresh)
        except Fault as fault:
            self.lose(call, fault)

    def _resume(self, call: HttpCall) -> None:
        self._resuming.pop(call, None)
        self._submit(call, self._heads.get(call.last_event_id))

    def _withdraw(self, call: HttpCall, reason: str) -> None:
        """Stop waiting, and notify the server: by closing the connection (stateless era), or by a notification."""
        if not self.finish(call):
            return
        sent = call.connection is not None
        self._pool.drop(call)
        if sent and not self.modern and call.outgoing.method != "initialize":
            self.tell(CANCELLED_METHOD, withdrawal(call.id, reason))

    def _sweep_by(self, deadline: float) -> None:
        """Check the deadlines at that time. A link has one timer, not one per call: most calls end long before."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = deadline
        self._sweeper = self._loop.call_at(deadline, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        self._sweep_at = math.inf
        now = self._loop.time()
        for call in [call for call in self.calls.values() if call.deadline <= now]:
            if call.id in self.calls:
                self._withdraw(call, "the deadline passed")
                call.sink.on_lost(Fault("UPSTREAM_TIMEOUT", f"no answer to {call.outgoing.method} in time"))
        earliest = min((call.deadline for call in self.calls.values()), default=math.inf)
        if earliest < self._sweep_at:
            self._sweep_by(max(earliest, now + SWEEP))

    def post(self, body: bytes, method: str = "") -> None:
        if self.authorized is not None and not self.authorized.ready():
            self.authorized.hold_post(body, method)
        else:
            self.send_post(body, method)

    def send_post(self, body: bytes, method: str) -> None:
        if not self._closed:
            self._posts.send(body, method)
