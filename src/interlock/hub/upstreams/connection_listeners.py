"""Listeners for server messages that belong to no call.

A shared connection serves many callers, so its listener never answers on behalf of a client.
A private connection has one owner, and its listener routes messages to that owner.
Both dispatch requests to the hub itself, such as those of MCP Live: they are for no client.
"""

from __future__ import annotations

import asyncio

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.early_requests import EarlyRequests
from interlock.hub.upstreams.notification_dispatcher import (
    CLAIMS,
    RESOURCE_UPDATED,
    TASK_NOTIFICATIONS,
    NotificationDispatcher,
)
from interlock.hub.upstreams.private_connections import PrivateConnections
from interlock.wire.conversation import CANCELLED
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request


class SharedConnectionListener:
    """Dispatches notifications of a shared connection and requests to the hub itself; refuses requests to clients."""

    def __init__(self, dispatcher: NotificationDispatcher, ended: asyncio.Future[Fault]) -> None:
        self._dispatcher = dispatcher
        self.on_notification = dispatcher.on_notification
        self.on_log = dispatcher.on_log
        self._ended = ended
        self._connection: Connection | None = None
        self._early = EarlyRequests()

    def attach(self, connection: Connection) -> None:
        """Answer requests on this connection, those too that arrived already."""
        self._connection = connection
        for request in self._early.release(connection):
            self.on_request(request)

    def on_request(self, request: Request) -> None:
        """Take a request for the hub. Refuse others: a shared connection cannot tell which caller they are for."""
        if self._dispatcher.on_request(request):
            return
        if self._connection is None:
            self._early.keep(request)
            return
        fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be attributed to a caller on a shared connection")
        self._connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))

    def on_closed(self, fault: Fault) -> None:
        if self._connection is not None:
            self._dispatcher.on_closed(self._connection)
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
        elif method == CANCELLED:
            self._owner.questions.withdraw(params)
        elif not self._owner.on_notification(method, params):
            self._dispatcher.on_notification(method, params, None if method in CLAIMS else self._owner)

    def on_closed(self, fault: Fault) -> None:
        self._owner.questions.close()
        if self._owner.connection is not None:
            self._dispatcher.on_closed(self._owner.connection, self._owner)
            self._pool.on_lost(self._owner.connection)
