"""Subscriptions to a server's events (MGP, Event Subscription).

A session subscribes with `mgp/events/subscribe`. In the stateless era a client opens a stream for its events.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.client.peer import remote_fault
from interlock.client.watch import ACKNOWLEDGED
from interlock.protocols.mgp.events import SUBSCRIBE, Severity, SubscribeResult
from interlock.protocols.mgp.negotiation import EXTENSION_KEY
from interlock.transports.link import Outgoing
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure, Id, Request, Result

LISTEN: Final = "subscriptions/listen"


async def subscribe(
    connection: Connection,
    channels: tuple[str, ...],
    min_severity: Severity | None,
    on_notification: Callable[[str, bytes], None],
    timeout: float,
) -> SubscribeResult:
    """Subscribe to channels or patterns, in the way of the server's era. Raises a `Fault` if the server refuses."""
    least = {} if min_severity is None else {"min_severity": min_severity}
    params: dict[str, object] = {"channels": channels, "filter": least}
    if not connection.modern:
        return msgspec.json.decode(await connection.request(SUBSCRIBE, params, timeout=timeout), type=SubscribeResult)
    opened = await EventStream(connection, on_notification).open(params, timeout)
    if opened is None:
        raise Fault("METHOD_NOT_FOUND", "the server has no events")
    return opened


class EventStream:
    """One stream with events, and the sink of the request that opened it."""

    def __init__(
        self,
        connection: Connection,
        on_notification: Callable[[str, bytes], None],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._on_notification = on_notification
        self._ended = ended
        """Called when an open stream ends, unless `close` ended it."""
        self._handle: Id | None = None
        self._agreed: asyncio.Future[SubscribeResult | None] = asyncio.get_running_loop().create_future()

    async def open(self, params: dict[str, object], timeout: float) -> SubscribeResult | None:
        """Open it. None if the server has no events on streams. Raises Fault."""
        body = msgspec.json.encode({"notifications": {EXTENSION_KEY: {"events": params}}})
        self._handle = self._connection.send(Outgoing(LISTEN, body, math.inf), self)
        agreed = None
        try:
            async with asyncio.timeout(timeout):
                agreed = await asyncio.shield(self._agreed)
        except TimeoutError:
            raise Fault("UPSTREAM_TIMEOUT", "the server did not acknowledge a stream of events") from None
        finally:
            # Also if the caller was cancelled: no other part has the stream.
            if agreed is None:
                self.close()
        return agreed

    def close(self) -> None:
        """Cancel the request whose answer the stream is. A second call does nothing."""
        if self._handle is not None:
            self._connection.cancel(self._handle, "no longer wanted")
            self._handle = None

    def on_notification(self, method: str, params: bytes) -> None:
        if method != ACKNOWLEDGED:
            self._on_notification(method, params)
        elif not self._agreed.done():
            try:
                agreed = msgspec.json.decode(params, type=_Acknowledged).notifications.mgp.events
            except (msgspec.DecodeError, UnicodeDecodeError):
                agreed = None
            self._agreed.set_result(agreed)

    def on_response(self, answer: Result | Failure) -> None:
        self._handle = None
        if self._agreed.done():
            self._ended()
            return
        if isinstance(answer, Failure):
            self._agreed.set_exception(remote_fault(answer.error))
        else:
            self._agreed.set_result(None)

    def on_request(self, request: Request) -> None:
        pass

    def on_lost(self, fault: Fault) -> None:
        self._handle = None
        if self._agreed.done():
            self._ended()
        else:
            self._agreed.set_exception(fault)


class _Mgp(msgspec.Struct):
    events: SubscribeResult | None = None


class _Notifications(msgspec.Struct):
    mgp: _Mgp = msgspec.field(default_factory=_Mgp, name=EXTENSION_KEY)


class _Acknowledged(msgspec.Struct):
    notifications: _Notifications = msgspec.field(default_factory=_Notifications)
