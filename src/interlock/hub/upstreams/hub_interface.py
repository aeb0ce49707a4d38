"""The rest of the hub as one server sees it: calls that decide, record or answer. Everything else is an event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from interlock.client.connection import Connection
from interlock.hub.catalog.offer import Offer
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.wire.messages import Request


class HubInterface(Protocol):
    """The hub as connections of servers see it. `server` is always the id of the server concerned."""

    async def prepare(self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool) -> None:
        """Settle permissions with a server before its new connection is used. Raises a `Fault` to refuse the server."""

    async def on_offer(self, offer: Offer) -> None:
        """Check the lists of a server: permissions, pins, quarantine. Returns once they are in force."""

    async def remembered_tools(self, server: str, audience: str, stamp: str) -> list[bytes] | None:
        """The tools that a server offered to an audience beyond those for everybody; None where that is not known."""

    async def remember_tools(self, server: str, audience: str, stamp: str, definitions: list[bytes]) -> None:
        """Remember them for the next start."""

    def on_resource_updated(self, server: str, uri: str, connection_key: str | None) -> None:
        """Publish that a resource changed; `connection_key` names the private connection that reported it."""

    def on_claim(self, server: str, method: str, params: bytes) -> None:
        """Record a server's claim in the audit log."""

    def on_event(self, server: str, params: bytes) -> None:
        """Take an event of a server that the hub subscribed to."""

    def on_task_notification(self, server: str, owner: ConnectionOwner | None, method: str, params: bytes) -> None:
        """Take the state of a task that a server reported; `owner` is None on the shared connection."""

    def ask_client(self, request: ClientRequest) -> asyncio.Future[bytes]:
        """Judge a server's request to a client, and send it once it may be. The future fails with a refusal."""

    def note_text(self, client: SessionCaller, server: str, method: str) -> None:
        """A client is about to get text of a server that no gate judges: a notification, or a request about a task."""

    async def on_greeted(self, server: str, key: str | None, principal: str, connection: Connection) -> None:
        """Agree on MCPL with a server that may begin, before anything else is sent to it.

        `key` names a private connection and `principal` whose it is; the shared connection has neither.
        """

    def on_connection_closed(self, server: str, key: str | None, connection: Connection) -> None:
        """End what was agreed on a connection that closed (MCPL)."""

    def is_live(self, server: str) -> bool:
        """Whether a server speaks MCPL on its shared connection."""

    def on_live_request(self, server: str, key: str | None, request: Request) -> bool:
        """Take a request that a server sends by itself (MCPL). False where it is none."""

    def on_live_notification(self, server: str, key: str | None, method: str, params: bytes) -> None:
        """Take a notification that a server sends by itself (MCPL)."""

    def new_task_id(self) -> str:
        """An id for a task that a server starts at a client."""

    def subscriptions(self, server: str, connection_key: str | None) -> Sequence[str]:
        """The resources that clients subscribed to."""

    def watched_tasks(self, server: str) -> Sequence[str]:
        """The tasks that clients wait for."""
