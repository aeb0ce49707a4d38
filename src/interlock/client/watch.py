"""Notifications of changes: `subscriptions/listen` in the stateless era, the standing stream and `resources/subscribe`
in the handshake era.

A broken stream is opened again, with growing pauses. The listener is then notified of everything that is watched, since
changes in the meantime were lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from interlock.client.peer import Identity, Peer, declaring, remote_fault
from interlock.protocols.mcpl.live import FILTER
from interlock.transports.http.client.link import HttpLink
from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json_or
from interlock.wire.messages import EMPTY_OBJECT, Failure, Id, Request, Result

FIRST_WAIT: Final = 1.0
MAX_WAIT_S: Final = 30.0
MAX_ASKED_WAIT_S: Final = 300.0
"""Upper bound for the pause that a server may ask for."""
STREAM_WAIT: Final = 1.0
"""How long to wait for the standing stream, or for the acknowledgment of a subscription, before continuing."""
MAX_OPENED: Final = 4
REFUSED: Final = 5
"""After this many refusals in a row the subscription is not opened again."""

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_LISTS: Final = (
    ("tools", "toolsListChanged"),
    ("prompts", "promptsListChanged"),
    ("resources", "resourcesListChanged"),
)


class Watched(Protocol):
    """The connection to the server that is watched."""

    link: Link
    listener: Listener
    peer: Peer
    identity: Identity
    modern: bool

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        """Send a request. Returns the handle to cancel it by."""

    def cancel(self, handle: Id, reason: str = "") -> None:
        """Stop waiting, and tell the server."""

    async def request(self, method: str, params: bytes | dict[str, object]) -> bytes:
        """Ask and wait. Raises a `Fault`."""


class Watch:
    """The notifications that one connection wants."""

    def __init__(self, connection: Watched) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._lists = self._live = False
        self._uris: set[str] = set()
        self._tasks: frozenset[str] = frozenset()
        self._listening: _Listening | None = None
        self._before: _Listening | None = None
        """The stream that `_listening` replaces. It stays open until the server has acknowledged the new one."""
        self._timer: asyncio.TimerHandle | None = None
        self._wait = FIRST_WAIT
        self._refused = 0
        self._stopped = False
        self.opened: deque[Id] = deque(maxlen=MAX_OPENED)
        """The newest subscriptions. Messages of one that has just ended may be on their way."""

    async def set(
        self, lists: bool, uris: frozenset[str], tasks: frozenset[str] = frozenset(), *, live: bool = False
    ) -> Mapping[str, Fault]:
        """Watch these from now on. Servers of the handshake era report tasks without being asked. Returns the resources
        whose changes the server does not report, and why."""
        same = (lists, tasks, live) == (self._lists, self._tasks, self._live) and uris == self._uris
        self._lists, self._tasks, self._live = lists, tasks, live
        if not self._connection.modern:
            return await self._subscribe(uris)
        self._uris = set(uris)
        if not same or self._listening is None:
            self._refused = 0
            self._open()
        return await self._acknowledgment()

    async def _subscribe(self, uris: frozenset[str]) -> Mapping[str, Fault]:
        """Subscribe in the handshake era: each resource by itself, so that one refusal does not affect the others."""
        connection = self._connection
        if isinstance(connection.link, HttpLink):
            connection.link.listen()
            # Many servers lose notifications from before the stream is open.
            await connection.link.listening(STREAM_WAIT)
        refused: dict[str, Fault] = {}
        for uri in sorted(uris - self._uris):
            try:
                await connection.request("resources/subscribe", {"uri": uri})
            except Fault as fault:
                refused[uri] = fault
            else:
                self._uris.add(uri)
        for uri in sorted(self._uris - uris):
            self._uris.discard(uri)
            with contextlib.suppress(Fault):
                await connection.request("resources/unsubscribe", {"uri": uri})
        return refused

    async def _acknowledgment(self) -> Mapping[str, Fault]:
        """Read the acknowledgment in the stateless era (2026-07-28, Subscriptions: Acknowledgment)."""
        listening, uris = self._listening, self._uris
        if listening is None:
            return {}
        try:
            async with asyncio.timeout(STREAM_WAIT):
                agreed = await asyncio.shield(listening.agreed)
        except TimeoutError:
            # The caller continues, and reads its lists before the stream is open.
            listening.missed = True
            return {}
        except Fault as fault:
            return dict.fromkeys(uris, fault)
        if agreed is None:
            return {}
        return {
            uri: Fault("RESOURCE_NOT_FOUND", f"the server does not report changes to {uri[:200]}")
            for uri in uris - agreed
        }

    def renew(self) -> None:
        """Watch the same in a new session."""
        connection = self._connection
        if isinstance(connection.link, HttpLink):
            connection.link.listen(anew=True)
        for uri in sorted(self._uris):
            outgoing = Outgoing("resources/subscribe", msgspec.json.encode({"uri": uri}), self._loop.time() + 60.0)
            connection.send(outgoing, _Listening(self))
        self._tell_all()

    def restart(self) -> None:
        """End the subscription in the stateless era, and open it again after a pause."""
        listening = self._listening
        if listening is not None:
            self.opened.clear()
            self._end(listening)
            self.over(listening, refused=False)

    def stop(self) -> None:
        """Cancel the streams and the timer for good."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for listening in (self._before, self._listening):
            if listening is not None:
                self._end(listening)

    def on_notification(self, listening: _Listening, method: str, params: bytes) -> None:
        """Take a notification of a subscription."""
        if listening is not self._listening:
            if listening is self._before and method != ACKNOWLEDGED:
                self._connection.listener.on_notification(method, params)
            return
        self._wait = FIRST_WAIT
        self._refused = 0
        if method != ACKNOWLEDGED:
            self._connection.listener.on_notification(method, params)
            return
        self._end_before()
        listening.acknowledge(params)
        if listening.missed:
            self._tell_all()

    def over(self, listening: _Listening, refused: bool, wait_s: float = 0.0) -> None:
        """Handle a subscription that the server ended. `wait_s` is the pause that the server asks for."""
        if listening is self._before:
            self._before = None
        if listening is not self._listening or self._stopped:
            return
        self._listening = None
        self._end_before()
        self._refused += refused
        if self._refused < REFUSED:
            self._timer = self._loop.call_later(max(self._wait, min(wait_s, MAX_ASKED_WAIT_S)), self._reopen)
            self._wait = min(self._wait * 2, MAX_WAIT_S)

    def _filter(self) -> dict[str, object]:
        peer = self._connection.peer
        wanted: dict[str, object] = {}
        if self._lists:
            wanted |= {key: True for capability, key in _LISTS if peer.offers(capability, "listChanged")}
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if self._tasks:
            wanted["taskIds"] = sorted(self._tasks)
        if self._live:
            wanted[FILTER] = {}
        return wanted

    def _reopen(self) -> None:
        """Open the subscription again after a time without one."""
        self._open(missed=True)

    def _open(self, *, missed: bool = False) -> None:
        """Open the new subscription. The old one ends once the new one is acknowledged, so that no change is missed."""
        self._timer = None
        self._end_before()
        before, self._listening = self._listening, None
        wanted = self._filter()
        if wanted and not self._stopped:
            self._before = before
            listening = self._listening = _Listening(self, missed=missed)
            params = msgspec.json.encode({"notifications": wanted})
            if self._tasks:
                params = declaring(self._connection.identity, self._connection.peer.revision, params)
            outgoing = Outgoing("subscriptions/listen", params, math.inf)
            try:
                listening.handle = self._connection.send(outgoing, listening)
                self.opened.append(listening.handle)
            except Fault:
                self.over(listening, refused=False)
        elif before is not None:
            self._end(before)

    def _tell_all(self) -> None:
        """Notify the listener of everything that is watched: it may have changed while no stream was open."""
        listener, peer = self._connection.listener, self._connection.peer
        if self._lists:
            for capability, _ in _LISTS:
                if peer.offers(capability, "listChanged"):
                    listener.on_notification(f"notifications/{capability}/list_changed", EMPTY_OBJECT)
        for uri in sorted(self._uris):
            listener.on_notification("notifications/resources/updated", msgspec.json.encode({"uri": uri}))

    def _end_before(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            self._end(before)

    def _end(self, listening: _Listening) -> None:
        if listening.handle is not None:
            self._connection.cancel(listening.handle, "no longer wanted")


class _Listening:
    """The sink of one subscription."""

    __slots__ = ("_watch", "agreed", "handle", "missed")

    def __init__(self, watch: Watch, *, missed: bool = False) -> None:
        self._watch = watch
        self.missed = missed
        """Whether changes before its acknowledgment were missed."""
        self.handle: Id | None = None
        self.agreed: asyncio.Future[frozenset[str] | None] = asyncio.get_running_loop().create_future()
        """The resources whose changes the server reports; None if it did not say."""
        # Retrieve the outcome, so that asyncio does not report it where no caller reads it.
        self.agreed.add_done_callback(lambda done: done.cancelled() or done.exception())

    def acknowledge(self, params: bytes) -> None:
        """Take the acknowledgment."""
        if not self.agreed.done():
            agreed = decode_json_or(params, _Acknowledged, _Acknowledged()).notifications
            self.agreed.set_result(None if agreed is None else frozenset(agreed.resourceSubscriptions))

    def on_response(self, answer: Result | Failure) -> None:
        if isinstance(answer, Failure) and not self.agreed.done():
            self.agreed.set_exception(remote_fault(answer.error))
        self._watch.over(self, refused=isinstance(answer, Failure))

    def on_notification(self, method: str, params: bytes) -> None:
        self._watch.on_notification(self, method, params)

    def on_request(self, request: Request) -> None:
        pass

    def on_lost(self, fault: Fault) -> None:
        if not self.agreed.done():
            self.agreed.set_result(None)
        wait_s = (fault.retry_after_ms or 0) / 1000 if fault.kind.retryable else 0.0
        self._watch.over(self, refused="status" in fault.data and not fault.kind.retryable, wait_s=wait_s)


class _Agreed(msgspec.Struct):
    resourceSubscriptions: list[str] = []


class _Acknowledged(msgspec.Struct):
    notifications: _Agreed | None = None
