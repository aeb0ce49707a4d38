"""Hearing of changes: one `subscriptions/listen` in the stateless era, the standing stream and `resources/subscribe`
before it. Whatever breaks is opened again, later and later."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.client.peer import declaring
from interlock.transports.http.client import HttpLink
from interlock.transports.link import Outgoing
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

if TYPE_CHECKING:
    from interlock.client.connection import Connection

FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 30.0
STREAM_WAIT: Final = 1.0
"""How long a server may take to open the standing stream before one goes on without it."""
REFUSED: Final = 5
"""How often in a row a server may refuse before it is no longer asked."""

_LISTS: Final = (
    ("tools", "toolsListChanged"),
    ("prompts", "promptsListChanged"),
    ("resources", "resourcesListChanged"),
)


class Watch:
    """What one connection wants to hear of."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._lists = False
        self._uris: frozenset[str] = frozenset()
        self._tasks: frozenset[str] = frozenset()
        self._listening: _Listening | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wait = FIRST_WAIT
        self._refused = 0
        self._stopped = False
        self.acknowledged: bytes | None = None
        """What the server agreed to tell (stateless era)."""

    async def set(self, lists: bool, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Watch these from now on. Of tasks, servers before the stateless era tell by themselves."""
        before, self._uris, self._lists, self._tasks = self._uris, uris, lists, tasks
        connection = self._connection
        if connection.modern:
            self._refused = 0
            self._open()
            return
        if isinstance(connection.link, HttpLink):
            connection.link.listen()
            # What a server says before the stream is open is lost with many of them.
            await connection.link.listening(STREAM_WAIT)
        for uri in sorted(uris - before):
            await connection.request("resources/subscribe", {"uri": uri})
        for uri in sorted(before - uris):
            await connection.request("resources/unsubscribe", {"uri": uri})

    def renew(self) -> None:
        """A new session knows nothing of what the last was asked to watch."""
        connection = self._connection
        if isinstance(connection.link, HttpLink):
            connection.link.listen(anew=True)
        for uri in sorted(self._uris):
            outgoing = Outgoing("resources/subscribe", msgspec.json.encode({"uri": uri}), self._loop.time() + 60.0)
            connection.send(outgoing, _Listening(self))

    def stop(self) -> None:
        """Nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._listening is not None:
            self._end(self._listening)

    def notified(self, listening: _Listening, method: str, params: bytes) -> None:
        """Something came on a subscription."""
        if listening is not self._listening:
            return
        self._wait = FIRST_WAIT
        self._refused = 0
        if method == "notifications/subscriptions/acknowledged":
            self.acknowledged = params
        else:
            self._connection.listener.notified(method, params)

    def over(self, listening: _Listening, refused: bool) -> None:
        """A subscription ended, and not because we wanted it to."""
        if listening is not self._listening or self._stopped:
            return
        self._listening = None
        self._refused += refused
        if self._refused < REFUSED:
            self._timer = self._loop.call_later(self._wait, self._open)
            self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _filter(self) -> dict[str, object]:
        peer = self._connection.peer
        wanted: dict[str, object] = {}
        if self._lists:
            wanted |= {key: True for capability, key in _LISTS if peer.offers(capability, "listChanged")}
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if self._tasks:
            wanted["taskIds"] = sorted(self._tasks)
        return wanted

    def _open(self) -> None:
        """Open the new subscription first and end the old one then, so that no change falls between them."""
        self._timer = None
        before, self._listening = self._listening, None
        wanted = self._filter()
        if wanted and not self._stopped:
            listening = self._listening = _Listening(self)
            params = msgspec.json.encode({"notifications": wanted})
            if self._tasks:
                params = declaring(self._connection.identity, self._connection.revision, params)
            outgoing = Outgoing("subscriptions/listen", params, math.inf)
            try:
                listening.handle = self._connection.send(outgoing, listening)
            except Fault:
                self.over(listening, refused=False)
        if before is not None:
            self._end(before)

    def _end(self, listening: _Listening) -> None:
        if listening.handle is not None:
            self._connection.cancel(listening.handle, "no longer wanted")


class _Listening:
    """The sink of one subscription."""

    __slots__ = ("_watch", "handle")

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.handle: Id | None = None

    def answered(self, answer: Result | Failure) -> None:
        self._watch.over(self, refused=isinstance(answer, Failure))

    def notified(self, method: str, params: bytes) -> None:
        self._watch.notified(self, method, params)

    def asked(self, request: Request) -> None:
        pass

    def lost(self, fault: Fault) -> None:
        self._watch.over(self, refused="status" in fault.data)
