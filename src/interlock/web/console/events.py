"""Server-sent events for open pages. An event only says that something changed; the page then fetches its parts.

So a stream stays small, and a slow page that loses events misses nothing. A stream ends with its session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.events import EventFilter, Gap, Subscription
from interlock.events.types import (
    ApprovalChanged,
    AuditCommitted,
    ConfigurationReloaded,
    Delivery,
    ListChanged,
    PolicyChanged,
    ServerStateChanged,
)
from interlock.hub.admin.table import OPERATIONS
from interlock.protocols.traces import new_trace_id
from interlock.web.console.page import Console, Visit
from interlock.web.console.sessions import ConsoleSession
from interlock.web.streamed_response import StreamedResponse
from interlock.wire.errors import Fault
from interlock.wire.sse import KEEP_ALIVE

KEEP_ALIVE_S: Final = 15.0
PAUSE_S: Final = 0.03
"""Events of one topic within this time after another are sent as one."""
LOOK_EVERY_S: Final = 0.005
"""The shortest pause between two reads of a stream, so that thousands of events cost little."""
AUDIT_EVERY_S: Final = 0.5
"""The shortest pause between two events about new audit log entries."""
UNREAD: Final = 64
"""Unread events of a stream. Beyond that it gets a gap, which is sent like a change."""
MAX_STREAMS: Final = 256
"""Streams of all people together, without those of the hub's own user."""
MAX_STREAMS_PER_PERSON: Final = 16
MAX_STREAMS_PER_SESSION: Final = 8

_APPROVALS: Final = b"event: approvals\ndata: changed\n\n"
_AUDIT: Final = b"event: audit\ndata: changed\n\n"
_SERVERS: Final = b"event: servers\ndata: changed\n\n"
_ENDED: Final = b"event: ended\ndata: log in again\n\n"
_TYPE: Final = "text/event-stream"
_HEADERS: Final = {"x-accel-buffering": "no"}
_WANTED: Final = EventFilter.of(
    ApprovalChanged, AuditCommitted, PolicyChanged, ServerStateChanged, ListChanged, ConfigurationReloaded
)
_TOPICS: Final[dict[type[object], bytes]] = {
    ApprovalChanged: _APPROVALS,
    AuditCommitted: _AUDIT,
    ServerStateChanged: _SERVERS,
    ListChanged: _SERVERS,
    ConfigurationReloaded: _SERVERS,
}
_PACE: Final = {_APPROVALS: PAUSE_S, _SERVERS: PAUSE_S, _AUDIT: AUDIT_EVERY_S}
"""How long a topic waits after it was sent. Each has its own pause, so audit events never delay approvals."""


class EventStreams:
    """The streams of one console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: list[ConsoleSession] = []

    async def show(self, visit: Visit) -> Response:
        """A stream for one page."""
        console, session = self._console, visit.session
        console.operations.demand(session.principal, OPERATIONS["approvals.list"], new_trace_id())
        if visit.request.method == "HEAD":
            return Response(headers=_HEADERS, media_type=_TYPE)
        own = sum(other.person == session.person for other in self._open)
        user = console.operations.hub_user
        others = sum(other.person != (user.id, user.kind) for other in self._open)
        full = others >= MAX_STREAMS and not visit.is_owner
        if full or own >= MAX_STREAMS_PER_PERSON or self._open.count(session) >= MAX_STREAMS_PER_SESSION:
            raise Fault("RESOURCE_EXHAUSTED", "too many pages of the console are open", hint="close some")
        # Count the stream now, not when it begins: many may be opened at the same time.
        self._open.append(session)
        return _Stream(self, session)

    def release(self, session: ConsoleSession) -> None:
        """A stream of a session has ended."""
        self._open.remove(session)

    async def events(self, session: ConsoleSession) -> AsyncIterator[bytes]:
        """Server-sent events for a page: which topics changed, until the session ends."""
        console = self._console
        subscription = console.hub_app.bus.subscribe(_WANTED, UNREAD)
        # A person is present, so calls wait for an answer as they do with `interlock watch`.
        presence = console.hub_app.inbox.watch()
        stop = console.operations.console.on_close(subscription.close)
        try:
            yield b"retry: 2000\n\n"
            async for topics in _changes(subscription):
                if not console.sessions.holds(session):
                    yield _ENDED
                    return
                yield b"".join(topics) or KEEP_ALIVE
        finally:
            stop()
            presence.close()
            subscription.close()


class _Stream(StreamedResponse):
    """A response that releases its stream when it ends, even if it never began."""

    def __init__(self, streams: EventStreams, session: ConsoleSession) -> None:
        super().__init__(streams.events(session), headers=_HEADERS, media_type=_TYPE)
        self._streams = streams
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.release(self._session)


async def _changes(subscription: Subscription) -> AsyncIterator[list[bytes]]:
    """Changed topics in batches, each topic at its own pace; an empty batch after a while without changes."""
    loop = asyncio.get_running_loop()
    waiting: set[bytes] = set()
    due = dict.fromkeys(_PACE, 0.0)
    while not subscription.closed:
        left = max(0.0, min(due[topic] for topic in waiting) - loop.time()) if waiting else KEEP_ALIVE_S
        timed_out = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await subscription.wait()
                timed_out = False
        if subscription.closed:
            return
        kinds = {_kind(event) for event in subscription.take()}
        waiting.update(topic for kind, topic in _TOPICS.items() if kind in kinds)
        now = loop.time()
        topics = [topic for topic in _PACE if topic in waiting and due[topic] <= now]
        waiting.difference_update(topics)
        due.update((topic, now + _PACE[topic]) for topic in topics)
        if topics or (timed_out and not waiting) or PolicyChanged in kinds:
            yield topics
        await asyncio.sleep(LOOK_EVERY_S)


def _kind(event: Delivery) -> type[object]:
    return event.type if isinstance(event, Gap) else type(event)
