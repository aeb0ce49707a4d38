"""Who hears what belongs to no call: on the shared connection the server, on a private one its owner."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.protocols.mcp.tasks import STATUS_CHANGED
from interlock.wire.conversation import CANCELLED, PROGRESS
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request

CLAIMS: Final = frozenset({"notifications/mgp.audit", "notifications/mgp.lifecycle"})
"""What a server says of itself, for the record."""
TASK_NOTICES: Final = frozenset({*STATUS_CHANGED.values(), PROGRESS})
"""What a server tells of tasks. Progress that belongs to no open call is a task's, or nobody's."""
UPDATED: Final = "notifications/resources/updated"


class UpstreamListener(Protocol):
    """The server that the connections lead to."""

    def on_notification(self, method: str, params: bytes, owner: ConnectionOwner | None = None) -> None:
        """A notification that belongs to no call; `owner` is whose connection it came on, None for the shared one."""

    def on_private_connection_lost(self, connection: Connection) -> None:
        """A private connection ended by itself."""

    def on_log(self, stream: str, text: str) -> None:
        """A line for the operator."""


class SharedConnectionListener:
    """Hears what comes on the shared connection. It answers for nobody: a shared session has no client behind it."""

    def __init__(self, upstream: UpstreamListener, ended: asyncio.Future[Fault]) -> None:
        self._upstream = upstream
        self._ended = ended
        self.connection: Connection | None = None

    def on_notification(self, method: str, params: bytes) -> None:
        self._upstream.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        """Whose question this is cannot be known, so nobody is asked."""
        fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be attributed to a caller on a shared connection")
        if self.connection is not None:
            self.connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))

    def on_closed(self, fault: Fault) -> None:
        if not self._ended.done():
            self._ended.set_result(fault)

    def on_log(self, stream: str, text: str) -> None:
        self._upstream.on_log(stream, text)


class PrivateConnectionListener:
    """Hears what comes on a private connection: its owner's affairs go to the owner, the server's to the upstream."""

    def __init__(self, upstream: UpstreamListener, owner: ConnectionOwner) -> None:
        self._upstream = upstream
        self._owner = owner

    def on_notification(self, method: str, params: bytes) -> None:
        if method in TASK_NOTICES or method == UPDATED:
            self._upstream.on_notification(method, params, self._owner)
        elif method == CANCELLED:
            self._owner.questions.withdraw(params)
        elif not self._owner.on_notification(method, params) and (method.endswith("/list_changed") or method in CLAIMS):
            self._upstream.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        self._owner.on_request(request)

    def on_closed(self, fault: Fault) -> None:
        self._owner.questions.close()
        if self._owner.connection is not None:
            self._upstream.on_private_connection_lost(self._owner.connection)

    def on_log(self, stream: str, text: str) -> None:
        self._upstream.on_log(stream, text)
