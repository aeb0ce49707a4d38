"""A connection to one server, in either era: probed or pinned, with the handshake done. A lost session is opened again.

`send` is for the hot path: callbacks, no task. `request` is for coroutines. Users of this class need not know the era,
except for questions of a server during a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from interlock.client.dial import Dial
from interlock.client.listing import Listing, read_page
from interlock.client.negotiation import Negotiation, Pin, shake_hands
from interlock.client.peer import Identity, Peer, encoded_meta, introduced, remote_fault
from interlock.client.session_retry import SessionRetry
from interlock.client.sinks import FutureSink, OnNotification, OnRequest
from interlock.client.watch import Watch
from interlock.protocols.mcp.intake import name_in, preview
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mgp.negotiation import MgpAgreement
from interlock.transports.http.client.link import HttpLink
from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.transports.one_stream import OneStreamLink
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.messages import EMPTY_OBJECT, Failure, Id, Request

PROBE_SECONDS: Final = 10.0
"""How long to wait for the answer to the probe before trying the handshake too."""

REOPEN_SECONDS: Final = 60.0
PAGES: Final = 1_000
LIST_BYTES: Final = 64 * 1024 * 1024


Prepare = Callable[["Connection"], Awaitable[None]]
"""Called once the server has introduced itself, before `notifications/initialized`. Its requests need `early`."""


Greeted = Callable[["Connection"], Awaitable[None]]
"""Called when the server may be used, before any other request; again for each new session."""


class Connection:
    """A connection to a server. Made by `open`."""

    def __init__(
        self,
        link: Link,
        peer: Peer,
        listener: Listener,
        identity: Identity,
        prepare: Prepare | None = None,
        greeted: Greeted | None = None,
    ) -> None:
        self.link = link
        self.peer = peer
        self.listener = listener
        self.identity = identity
        self.chances: dict[Id, SessionRetry] = {}
        """Requests that were or will be sent again, by the handle that the caller knows."""
        self._loop = asyncio.get_running_loop()
        self.modern = peer.revision.modern
        """Whether the stateless era is spoken with the server."""
        self.mgp: MgpAgreement | None = None
        """The extensions agreed beyond MCP."""
        self._prepare = prepare
        self._greeted = greeted
        self._meta = encoded_meta(identity, peer.revision)
        self.reopening: asyncio.Task[None] | None = None
        """The task that opens a new session, while it runs."""
        self._last_reopening: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._closed = False

    @classmethod
    async def open(
        cls,
        dial: Dial,
        listener: Listener,
        identity: Identity | None = None,
        *,
        pin: Pin = "auto",
        timeout: float = 60.0,
        probe_timeout: float = PROBE_SECONDS,
        prepare: Prepare | None = None,
        greeted: Greeted | None = None,
    ) -> Connection:
        """Connect and find out the server's era. Raises a `Fault`; then everything is closed again, and the listener
        gets no `on_closed`."""
        identity = identity or Identity()
        forwarding_listener = _ConnectionListener(listener)
        negotiation = Negotiation(dial, forwarding_listener, identity)
        try:
            async with asyncio.timeout(timeout):
                link, peer = await negotiation.meet(pin, probe_timeout)
                connection = cls(link, peer, listener, identity, prepare, greeted)
                await connection._greet(peer)
        except BaseException as cause:
            if negotiation.link is not None:
                await negotiation.link.close()
            if isinstance(cause, TimeoutError):
                raise Fault("UPSTREAM_TIMEOUT", f"the server did not introduce itself within {timeout:g} s") from None
            raise
        forwarding_listener.open = True
        return connection

    @property
    def revision(self) -> Revision:
        """The dialect spoken with the server."""
        return self.peer.revision

    @property
    def has_session(self) -> bool:
        """Whether answers reach the requests of a server. Over HTTP its session tells the server which they belong to;
        on any other transport the stream does."""
        link = self.link
        return not isinstance(link, HttpLink) or link.session_id is not None

    @property
    def pending(self) -> int:
        """Requests that wait for an answer."""
        return self.link.pending + sum(chance.held for chance in self.chances.values())

    def agree(self, mgp: MgpAgreement | None) -> None:
        """Speak MGP as agreed with the server, or not at all."""
        self.mgp = mgp

    # The hot path.

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        """Send a request. Returns the handle to cancel it by. Raises as `Link.send` does.

        A request that failed because its session was lost is sent again once, if it is idempotent.
        """
        if self.modern:
            if not outgoing.introduced:
                outgoing = msgspec.structs.replace(outgoing, params=introduced(outgoing.params, self._meta))
        elif self.reopening is not None:
            return SessionRetry(self, outgoing, sink).wait(self.reopening)
        return self.link.send(outgoing, sink)

    def session_lost(self, id: Id, outgoing: Outgoing, sink: Sink, session: str) -> bool:
        """Handle a request that failed because its session is gone (`link.SessionRecovery`), and open a new session.
        A request that may be sent twice waits for it; any other ends."""
        return SessionRetry(self, outgoing, sink).adopt(id, session)

    def cancel(self, handle: Id, reason: str = "") -> None:
        """Stop waiting, and notify the server. The sink gets no further calls."""
        moved = self.chances.get(handle)
        if moved is not None:
            moved.cancel(reason)
        else:
            self.link.cancel(handle, reason)

    def extend(self, handle: Id, deadline: float) -> None:
        """Change the deadline of a request, as its server waits for an answer of ours."""
        self.link.extend(self.current(handle), deadline)

    def hold(self, handle: Id, *, on: bool) -> None:
        """Pause the notifications of a request, or resume them."""
        self.link.hold(self.current(handle), on=on)

    def current(self, handle: Id) -> Id:
        """The id under which a request was last sent."""
        moved = self.chances.get(handle)
        return handle if moved is None or moved.current is None else moved.current

    def tell(self, method: str, params: bytes = EMPTY_OBJECT) -> None:
        """Send a notification."""
        self.link.tell(method, params)

    async def tell_surely(self, method: str, many: Sequence[bytes], timeout: float) -> None:
        """Send notifications and wait until the server has accepted all. Raises a `Fault` or TimeoutError."""
        link = self.link
        lost = link.untaken if isinstance(link, HttpLink) else 0
        for params in many:
            link.tell(method, params)
        if isinstance(link, HttpLink):
            async with asyncio.timeout(timeout):
                await link.settled()
            if link.untaken != lost:
                raise Fault("UPSTREAM_ERROR", f"the server did not take {method}")
        else:
            # One stream keeps its order: a server that answers this has read everything before it.
            await self.check(timeout)

    def answer(self, id: Id, result: bytes) -> None:
        """Answer a request of the server."""
        self.link.answer(id, result)

    def refuse(self, id: Id, error: ErrorObject) -> None:
        """Refuse a request of the server."""
        self.link.refuse(id, error)

    # For coroutines.

    async def request(
        self,
        method: str,
        params: bytes | dict[str, object] = EMPTY_OBJECT,
        *,
        timeout: float = 60.0,
        max_timeout: float | None = None,
        on_notification: OnNotification | None = None,
        on_request: OnRequest | None = None,
        param_headers: tuple[tuple[str, str], ...] = (),
        idempotent: bool | None = None,
        early: bool = False,
        accepts: frozenset[str] = frozenset(),
    ) -> bytes:
        """Send a request and wait for its result. Raises a `Fault`; one with `foreign_code` is the server's own error.

        With `on_notification` the request asks for progress, which moves its deadline up to `max_timeout`. `early`
        requests are sent before `notifications/initialized`, and never wait for a session.
        """
        now = self._loop.time()
        payload = params if isinstance(params, bytes) else msgspec.json.encode(params)
        outgoing = Outgoing(
            method,
            payload,
            now + timeout,
            name=_name_of(method, payload),
            param_headers=param_headers,
            wants_progress=on_notification is not None,
            max_deadline=None if max_timeout is None else now + max_timeout,
            idempotent=idempotent,
            accepts=accepts,
        )
        waiting = FutureSink(on_notification or self.listener.on_notification, on_request or self._refuse_unknown)
        if early:
            params = introduced(payload, self._meta) if self.modern else payload
            handle = self.link.send(msgspec.structs.replace(outgoing, params=params), waiting)
        else:
            handle = self.send(outgoing, waiting)
        try:
            answer = await waiting.future
        except asyncio.CancelledError:
            self.cancel(handle, "the caller gave up")
            raise
        if isinstance(answer, Failure):
            raise remote_fault(answer.error)
        return answer.result

    async def list_all(
        self, method: str, *, timeout: float = 60.0, pages: int = PAGES, declaring: bytes | None = None
    ) -> Listing:
        """Every page of a list. Raises UPSTREAM_ERROR for a list that has no end. With `declaring`, as a client that
        declares these capabilities sees it (stateless era)."""
        member = METHODS[method].list_member
        items: list[msgspec.Raw] = []
        seen: set[str] = set()
        size = 0
        ttl_ms: int | None = None
        scope = "public"
        identity = msgspec.structs.replace(self.identity, capabilities=declaring or self.identity.capabilities)
        meta: dict[str, object] = {} if declaring is None else {"_meta": identity.meta(self.revision)}
        params = meta
        for _ in range(pages):
            result = await self.request(method, params, timeout=timeout)
            size += len(result)
            page = await read_page(method, member, result)
            items += page.items
            # The shortest `ttlMs` and the narrowest scope of all pages hold for the whole list.
            if page.ttl_ms is not None:
                ttl_ms = page.ttl_ms if ttl_ms is None else min(ttl_ms, page.ttl_ms)
            scope = scope if page.scope == "public" else "private"
            if page.cursor is None or (not page.cursor and not self.modern):
                # An empty cursor is valid (2026-07-28, Pagination). Older servers mean the end of the list by it.
                return Listing(items, ttl_ms, scope)
            if page.cursor in seen or size > LIST_BYTES:
                break
            seen.add(page.cursor)
            params = {"cursor": page.cursor, **meta}
        raise Fault("UPSTREAM_ERROR", f"{method} has no end: a cursor came twice, or there are too many pages")

    async def check(self, timeout: float = 10.0) -> None:
        """Check with a ping that the server is there. Raises a `Fault` if not."""
        await self.request("server/discover" if self.modern else "ping", timeout=timeout)

    async def watch(
        self,
        *,
        lists: bool = True,
        uris: frozenset[str] = frozenset(),
        tasks: frozenset[str] = frozenset(),
        live: bool = False,
    ) -> Mapping[str, Fault]:
        """Get notifications of changes to the lists, these resources and tasks until `close`. Replaces the last watch.
        Returns the resources whose changes the server does not report, and why. After a broken stream the listener is
        notified of everything. With `live`, a server of the stateless era may send requests on the stream (MCPL)."""
        if self._watch is None:
            self._watch = Watch(self)
        return await self._watch.set(lists, uris, tasks, live=live)

    def has_subscribed(self, id: Id) -> bool:
        """Whether this is the id of a subscription that was opened here (stateless era)."""
        return self._watch is not None and id in self._watch.opened

    def restart_watch(self) -> None:
        """End the stream for notifications, with the requests on it, and open it again later (stateless era)."""
        if self._watch is not None:
            self._watch.restart()

    async def close(self) -> None:
        """Close the connection."""
        if self._closed:
            return
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
        if self.reopening is not None:
            self.reopening.cancel()
            await asyncio.wait([self.reopening])
        await self.link.close()

    def reopen(self, lost: str) -> asyncio.Task[None] | None:
        """Replace a lost session by a new one. A second caller waits with the first."""
        link = self.link
        if self._closed or not isinstance(link, HttpLink):
            return None
        if link.session_id == lost and self.reopening is None:
            self.reopening = self._last_reopening = self._loop.create_task(self._reopen(link, lost))
            self.reopening.add_done_callback(self._reopened)
        return self._last_reopening

    def _reopened(self, task: asyncio.Task[None]) -> None:
        self.reopening = None
        # Requests that wait for the task see its error. Retrieve it, in case none waits.
        if not task.cancelled():
            task.exception()

    async def _reopen(self, link: HttpLink, lost: str) -> None:
        try:
            async with asyncio.timeout(REOPEN_SECONDS):
                await self._greet(await shake_hands(link, self.identity))
        except BaseException:
            link.speak(self.peer.revision)
            link.join_session(lost)
            raise
        if self._watch is not None:
            self._watch.renew()

    async def _greet(self, peer: Peer) -> None:
        """Use the agreed revision, prepare the server and, in the handshake era, send `notifications/initialized`."""
        self.peer = peer
        link = self.link
        if isinstance(link, HttpLink):
            link.recover_with(self)
            link.speak(peer.revision)
            link.join_session(None if self.modern else link.offered_session)
        elif isinstance(link, OneStreamLink):
            link.modern = self.modern
        if self._prepare is not None:
            await self._prepare(self)
        if not self.modern:
            link.tell("notifications/initialized", EMPTY_OBJECT)
            if isinstance(link, HttpLink):
                await link.settled()
        if self._greeted is not None:
            await self._greeted(self)

    def _refuse_unknown(self, request: Request) -> None:
        self.refuse(
            request.id, Fault("METHOD_NOT_FOUND", f"{request.method} is not served").render(ErrorDialect.OLD_MCP)
        )


class _ConnectionListener:
    """Forwards messages that belong to no request. It reports a closed link only once the connection was open."""

    __slots__ = ("_listener", "open")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.open = False

    def on_notification(self, method: str, params: bytes) -> None:
        self._listener.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        self._listener.on_request(request)

    def on_closed(self, fault: Fault) -> None:
        if self.open:
            self._listener.on_closed(fault)

    def on_log(self, stream: str, text: str) -> None:
        self._listener.on_log(stream, text)


def _name_of(method: str, params: bytes) -> str | None:
    row = METHODS.get(method)
    if row is None or not row.named_by:
        return None
    return name_in(method, preview(params))
