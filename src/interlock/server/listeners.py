"""Who hears of changes: sessions of the handshake era, and streams opened with `subscriptions/listen` in the new one.

Changes of one loop turn are told once each, and only to those who asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.server.context import SessionState
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault

MOST_LISTENERS: Final = 4096
MOST_URIS: Final = 1000

LISTS: Final = {
    "tools": ("notifications/tools/list_changed", "toolsListChanged"),
    "prompts": ("notifications/prompts/list_changed", "promptsListChanged"),
    "resources": ("notifications/resources/list_changed", "resourcesListChanged"),
}
UPDATED: Final = "notifications/resources/updated"


class Wanted(msgspec.Struct, omit_defaults=True):
    """Which changes a stream is about (2026-07-28, Subscriptions: Notification Filter)."""

    toolsListChanged: bool = False
    promptsListChanged: bool = False
    resourcesListChanged: bool = False
    resourceSubscriptions: list[str] = []
    taskIds: list[str] = []


class _Stream(msgspec.Struct, eq=False):
    exchange: Exchange
    lists: frozenset[str]
    uris: frozenset[str]
    tasks: frozenset[str]
    meta: dict[str, object]

    def tell(self, method: str, params: dict[str, object]) -> None:
        self.exchange.notify(method, msgspec.json.encode({"_meta": self.meta, **params}))


class Listeners:
    """Everyone who hears of changes."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
        self._sessions: set[Session] = set()
        self._changed: dict[str, None] = {}
        self._updated: dict[str, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def join(self, session: Session) -> None:
        """A session hears of every list, and of the resources it subscribes to."""
        self._loop = asyncio.get_running_loop()
        self._sessions.add(session)

    def leave(self, session: Session) -> None:
        """A session is over."""
        self._sessions.discard(session)

    def listen(self, exchange: Exchange, granted: Wanted) -> None:
        """Open a stream. It is acknowledged first, and stays open until it is cancelled or `close`."""
        if len(self._streams) >= MOST_LISTENERS:
            raise Fault("RESOURCE_EXHAUSTED", "too many streams are open", retry_after_ms=5000)
        if len(granted.resourceSubscriptions) > MOST_URIS or len(granted.taskIds) > MOST_URIS:
            raise Fault("INVALID_PARAMS", f"a stream is about at most {MOST_URIS} resources and as many tasks")
        self._loop = asyncio.get_running_loop()
        lists = frozenset(what for what, (_, flag) in LISTS.items() if getattr(granted, flag))
        meta: dict[str, object] = {SUBSCRIPTION_ID: exchange.request.id}
        uris, tasks = frozenset(granted.resourceSubscriptions), frozenset(granted.taskIds)
        stream = _Stream(exchange, lists, uris, tasks, meta)
        stream.tell("notifications/subscriptions/acknowledged", {"notifications": granted})
        self._streams.add(stream)
        exchange.on_cancel = lambda _: self._streams.discard(stream)

    def list_changed(self, what: str) -> None:
        """A list is not what it was. From any thread."""
        self._soon(lambda: self._note(self._changed, what))

    def resource_updated(self, uri: str) -> None:
        """A resource is not what it was. From any thread."""
        self._soon(lambda: self._note(self._updated, uri))

    def task_changed(self, id: str, method: str, said: dict[str, object]) -> None:
        """A task is not where it was: told at once, since each state of it is a word of its own."""
        for stream in list(self._streams):
            if id in stream.tasks:
                stream.tell(method, said)

    def close(self) -> None:
        """End every stream gracefully (2026-07-28, Subscriptions: Graceful Closure)."""
        streams, self._streams = self._streams, set()
        for stream in streams:
            stream.exchange.result(msgspec.json.encode({"resultType": "complete", "_meta": stream.meta}))

    def _soon(self, action: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:
            action()
        else:
            loop.call_soon_threadsafe(action)

    def _note(self, noted: dict[str, None], what: str) -> None:
        if not self._changed and not self._updated:
            asyncio.get_running_loop().call_soon(self._tell)
        noted[what] = None

    def _tell(self) -> None:
        changed, self._changed = list(self._changed), {}
        updated, self._updated = list(self._updated), {}
        for what in changed:
            method = LISTS[what][0]
            for stream in list(self._streams):
                if what in stream.lists:
                    stream.tell(method, {})
            for session in list(self._sessions):
                if session.initialized:
                    session.notify(method, b"{}")
        for uri in updated:
            for stream in list(self._streams):
                if uri in stream.uris:
                    stream.tell(UPDATED, {"uri": uri})
            for session in list(self._sessions):
                if isinstance(session.state, SessionState) and uri in session.state.subscriptions:
                    session.notify(UPDATED, msgspec.json.encode({"uri": uri}))
