"""Dispatches the notifications of one server that belong to no call: tasks, changed lists, resources, audit, logs."""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.private_lists import READ, PrivateLists
from interlock.protocols.mcp.tasks import STATUS_CHANGED
from interlock.protocols.mgp.events import EVENT
from interlock.wire.conversation import PROGRESS
from interlock.wire.messages import Request

CLAIMS: Final = frozenset({"notifications/mgp.audit", "notifications/mgp.lifecycle"})
"""A server's own events for the audit log."""
TASK_NOTIFICATIONS: Final = frozenset({*STATUS_CHANGED.values(), PROGRESS})
"""Notifications about tasks. Progress that belongs to no open call belongs to a task."""
RESOURCE_UPDATED: Final = "notifications/resources/updated"
MAX_LOG_BYTES: Final = 2000


class NotificationDispatcher:
    """Hands each notification to the part of the hub that it concerns."""

    def __init__(
        self, server: str, logs: Logs, lists: ServerLists, private_lists: PrivateLists, hub: HubInterface
    ) -> None:
        self._server = server
        self._logs = logs
        self._lists = lists
        self._private_lists = private_lists
        self._hub = hub

    def on_notification(self, method: str, params: bytes, owner: ConnectionOwner | None = None) -> None:
        """Dispatch a notification; `owner` has the private connection it came on, None means the shared one."""
        if method in TASK_NOTIFICATIONS:
            self._hub.on_task_notification(self._server, owner, method, params)
        elif method.endswith("/list_changed"):
            if owner is not None and method in READ:
                self._private_lists.on_changed(owner, method)
            else:
                self._lists.changed.set()
        elif method == RESOURCE_UPDATED:
            with contextlib.suppress(msgspec.DecodeError):
                uri = msgspec.json.decode(params, type=_Updated).uri
                self._hub.on_resource_updated(self._server, uri, None if owner is None else owner.audience)
        elif method == EVENT and owner is None:
            self._hub.on_event(self._server, params)
        elif method in CLAIMS:
            self._hub.on_claim(self._server, method, params)
        elif method == "notifications/message":
            self.on_log("log", params[:MAX_LOG_BYTES].decode("utf-8", "replace"))
        else:
            self._hub.on_live_notification(self._server, _key(owner), method, params)

    def on_request(self, request: Request, owner: ConnectionOwner | None = None) -> bool:
        """Take a request that a server sends by itself and that is for the hub (MCPL). False where it is another's."""
        return self._hub.on_live_request(self._server, _key(owner), request)

    def on_closed(self, connection: Connection, owner: ConnectionOwner | None = None) -> None:
        """A connection is closed; `owner` had it."""
        if owner is not None:
            self._private_lists.on_closed(owner)
        self._hub.on_connection_closed(self._server, _key(owner), connection)

    def on_log(self, stream: str, text: str) -> None:
        """Keep a log line of the server for the operator."""
        self._logs.add(self._server, stream, text)


def _key(owner: ConnectionOwner | None) -> str | None:
    return None if owner is None else owner.connection_key


class _Updated(msgspec.Struct):
    uri: str
