"""Listeners for server messages that belong to no call.

A shared connection serves many callers, so its listener never answers on behalf of a client.
A private connection has one owner, and its listener routes messages to that owner.
Both dispatch requests to the hub itself, such as those of MCP Live: they are for no client.
"""

from __future__ import annotations

import asyncio

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.early_requests import RequestListener, refuse
from interlock.hub.upstreams.notification_dispatcher import (
    CLAIMS,
    RESOURCE_UPDATED,
    TASK_NOTIFICATIONS,
    NotificationDispatcher,
)
from interlock.hub.upstreams.private_connections import PrivateConnections
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import Fault
from interlock.wire.messages import Request


class SharedConnectionListener(RequestListener):
    """Dispatches notifications of a shared connection and requests to the hub itself; refuses requests to clients."""

    def __init__(self, dispatcher: NotificationDispatcher, ended: asyncio.Future[Fault]) -> None:
        super().__init__()
        self._dispatcher = dispatcher
        self.on_notification = dispatcher.on_notification
        self.on_log = dispatcher.on_log
        self._ended = ended

    def on_request(self, request: Request) -> None:
        """Take a request for the hub. Answer others once the connection is open."""
        if not self._dispatcher.on_request(request):
            super().on_request(request)

    def answer(self, connection: Connection, request: Request) -> None:
        """Refuse the request: a shared connection cannot tell which caller it is for."""
        refuse(connection, request, f"{request.method} cannot be attributed to a caller on a shared connection")

    def on_closed(self, fault: Fault) -> None:
        if self.connection is not None:
            self._dispatcher.on_closed(self.connection)
        if not self._ended.done():
            self._ended.set_result(fault)


class PrivateConnectionListener:
    """Routes messages for the client to the connection's owner, and those about the server to the dispatcher."""

    def __init__(self, dispatcher: NotificationDispatcher, owner: ConnectionOwner, pool: PrivateConnections) -> None:
        self._dispatcher = dispatcher
        self._owner = owner
        self._pool = pool
        self.on_log = dispatcher.on_log

    def on_request(self, request: Request) -> None:
        if not self._dispatcher.on_request(request, self._owner):
            self._owner.on_request(request)

    def on_notification(self, method: str, params: bytes) -> None:
        if method in TASK_NOTIFICATIONS or method == RESOURCE_UPDATED:
            self._dispatcher.on_notification(method, params, self._owner)
        elif method == CANCELLED_METHOD:
            self._owner.questions.withdraw(params)
        elif not self._owner.on_notification(method, params):
            self._dispatcher.on_notification(method, params, None if method in CLAIMS else self._owner)

    def on_closed(self, fault: Fault) -> None:
        self._owner.questions.close()
        if self._owner.connection is not None:
            self._dispatcher.on_closed(self._owner.connection, self._owner)
            self._pool.on_lost(self._owner.connection)
