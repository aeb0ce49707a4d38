"""Listeners for changes: sessions of the handshake era, and streams opened with `subscriptions/listen` in the new one.

A change is sent once for each turn of the loop, and only to the listeners that asked for it.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.protocols.mcp.tasks import STATUS_CHANGED
from interlock.protocols.mcpl.live import DELIVERY, FILTER, LiveFilter
from interlock.protocols.mgp.negotiation import EXTENSION_KEY
from interlock.server.requests.content import Members
from interlock.server.requests.session import Exchange, ServerSession
from interlock.wire.errors import Fault

MAX_STREAMS: Final = 4096
MAX_URIS: Final = 1000
UPDATED: Final = "notifications/resources/updated"


class WantedChanges(msgspec.Struct, omit_defaults=True):
    """The changes that a stream asks for (2026-07-28, Subscriptions: Notification Filter)."""

    toolsListChanged: bool = False
    promptsListChanged: bool = False
    resourcesListChanged: bool = False
    resourceSubscriptions: list[str] = []
    taskIds: list[str] = []
    live: LiveFilter | None = msgspec.field(default=None, name=FILTER)
    mgp: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict, name=EXTENSION_KEY)


class _Stream(msgspec.Struct, eq=False):
    exchange: Exchange
    wanted: frozenset[tuple[str, str]]
    """Notification methods, each with the address or the task id it must be about."""
    meta: Members
    live: LiveFilter | None = None
    """The messages that the server may start on it (MCPL)."""

    def notify(self, method: str, about: str, params: Members) -> None:
        if (method, about) in self.wanted:
            self.send(method, params)

    def send(self, method: str, params: Members) -> None:
        self.exchange.notify(method, msgspec.json.encode({"_meta": self.meta, **params}))


class StreamListener(Protocol):
    """Is notified of streams that their clients closed."""

    def on_stream_closed(self, stream: object) -> None:
        """A client closed a stream."""


class Listeners:
    """Every session and stream that is notified of changes."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
        self._sessions: set[ServerSession] = set()
        self._listener: StreamListener | None = None
        self._changes: dict[tuple[str, str], None] = {}
        """Notifications of this loop turn, in order: a method, and the address for `UPDATED`."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def join(self, session: ServerSession) -> None:
        """Notify a session of every list, and of the resources it subscribes to."""
        self._loop = asyncio.get_running_loop()
        self._sessions.add(session)

    def leave(self, session: ServerSession) -> None:
        """Forget a session that is over."""
        self._sessions.discard(session)

    def listen(self, exchange: Exchange, granted: WantedChanges) -> None:
        """Open a stream. It is acknowledged first, and stays open until it is cancelled or `close`."""
        if len(self._streams) >= MAX_STREAMS:
            raise Fault("RESOURCE_EXHAUSTED", "too many streams are open", retry_after_ms=5000)
        if len(granted.resourceSubscriptions) > MAX_URIS or len(granted.taskIds) > MAX_URIS:
            raise Fault("INVALID_PARAMS", f"a stream is about at most {MAX_URIS} resources and as many tasks")
        self._loop = asyncio.get_running_loop()
        lists = [name for name in ("tools", "prompts", "resources") if getattr(granted, f"{name}ListChanged")]
        wanted = [(_list_method(name), "") for name in lists]
        wanted += [(UPDATED, uri) for uri in granted.resourceSubscriptions]
        wanted += [(STATUS_CHANGED[True], task_id) for task_id in granted.taskIds]
        stream = _Stream(exchange, frozenset(wanted), {SUBSCRIPTION_ID: exchange.request.id}, granted.live)
        stream.send("notifications/subscriptions/acknowledged", {"notifications": granted})
        self._streams.add(stream)
        exchange.on_cancel = lambda _: self._closed(stream)
        exchange.release_params()  # The stream may stay open for days, and needs none of them.

    def follow_with(self, listener: StreamListener) -> None:
        """Notify `listener` of streams that their clients closed."""
        self._listener = listener

    def _closed(self, stream: _Stream) -> None:
        self._streams.discard(stream)
        if self._listener is not None:
            self._listener.on_stream_closed(stream)

    def deliver(
        self, principal_name: str, method: str, feature: str | None, params: bytes, id: str | None
    ) -> object | None:
        """Send a message on a stream of its host; with an id it is a request. Returns the stream; None if none takes
        it."""
        for stream in self._streams:
            if (
                stream.live is not None
                and stream.exchange.caller.principal_name == principal_name
                and stream.live.wants(method, feature)
            ):
                named = {} if id is None else {"id": id}
                stream.send(DELIVERY, {"method": method, "params": msgspec.Raw(params), **named})
                return stream
        return None

    def list_changed(self, name: str) -> None:
        """Notify that the list of tools, prompts or resources has changed. From any thread."""
        self._soon(_list_method(name), "")

    def resource_updated(self, uri: str) -> None:
        """Notify that a resource has changed. From any thread."""
        self._soon(UPDATED, uri)

    def task_changed(self, id: str, params: Members) -> None:
        """Notify that a task has changed: at once, since clients want each of its states."""
        for stream in list(self._streams):
            stream.notify(STATUS_CHANGED[True], id, params)

    def close(self) -> None:
        """End every stream gracefully (2026-07-28, Subscriptions: Graceful Closure)."""
        streams, self._streams = self._streams, set()
        for stream in streams:
            stream.exchange.result(msgspec.json.encode({"resultType": "complete", "_meta": stream.meta}))

    def _soon(self, method: str, uri: str) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:
            self._note(method, uri)
        else:
            loop.call_soon_threadsafe(self._note, method, uri)

    def _note(self, method: str, uri: str) -> None:
        if not self._changes:
            asyncio.get_running_loop().call_soon(self._send)
        self._changes[method, uri] = None

    def _send(self) -> None:
        changes, self._changes = self._changes, {}
        for method, uri in changes:
            params: Members = {"uri": uri} if method == UPDATED else {}
            for stream in list(self._streams):
                stream.notify(method, uri, params)
            for session in list(self._sessions):
                if uri in session.subscriptions if method == UPDATED else session.initialized:
                    session.notify(method, msgspec.json.encode(params))


def _list_method(name: str) -> str:
    return f"notifications/{name}/list_changed"
