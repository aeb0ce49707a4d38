"""Connects servers to the parts of the hub that decide and record, and publishes the rest as events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from interlock.client.connection import Connection
from interlock.events import Bus
from interlock.events.types import ResourceUpdated, ServerStateChanged, now_us
from interlock.hub.audit.server_claims import ServerClaims
from interlock.hub.catalog import remembered_audiences
from interlock.hub.catalog.offer import Offer
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.journal import Journal
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.hub.upstreams.commands import StateChange
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.hub.upstreams.server_event_subscriptions import ServerEventSubscriptions
from interlock.hub.upstreams.unavailable import fault_for_agents
from interlock.hub.upstreams.upstream import Upstream
from interlock.wire.messages import Request


class UpstreamRouter:
    """Implements `UpstreamHubInterface` with the parts of one hub: each method calls the part that it concerns."""

    def __init__(
        self,
        approvals: ApprovalParts,
        changes: ChangeNotifier,
        calls: CallParts,
        journal: Journal,
        claims: ServerClaims,
        bus: Bus,
        live: LiveParts,
        server_event_subscriptions: ServerEventSubscriptions,
    ) -> None:
        self._approvals = approvals
        self._changes = changes
        self._calls = calls
        self._journal = journal
        self._claims = claims
        self._bus = bus
        self._live = live
        self._server_event_subscriptions = server_event_subscriptions

    # Decisions about a server and its requests

    async def prepare(self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool) -> None:
        await self._approvals.server_policies.prepared(server, connection, agreement, shared=shared)

    async def on_offer(self, offer: Offer) -> None:
        await self._approvals.take(offer)

    async def remembered_tools(self, server: str, audience: str, stamp: str) -> list[bytes] | None:
        return await remembered_audiences.read(self._approvals.store, server, audience, stamp)

    async def remember_tools(self, server: str, audience: str, stamp: str, definitions: list[bytes]) -> None:
        await remembered_audiences.write(self._approvals.store, server, audience, stamp, definitions)

    def ask_client(self, request: ClientRequest) -> asyncio.Future[bytes]:
        return self._calls.pipeline.ask_client(request)

    def note_text(self, client: SessionCaller, server: str, method: str) -> None:
        self._calls.gate_chain.note_text(client, server, method)

    # MCPL: messages that a server sends by itself

    async def on_greeted(self, server: str, key: str | None, principal: str, connection: Connection) -> None:
        await self._live.on_greeted(server, key, principal, connection)

    def on_connection_closed(self, server: str, key: str | None, connection: Connection) -> None:
        self._live.connections.on_closed(server, key, connection)

    def is_live(self, server: str) -> bool:
        return self._live.connections.is_live(server)

    def on_live_request(self, server: str, key: str | None, request: Request) -> bool:
        return self._live.connections.on_request(server, key, request)

    def on_live_notification(self, server: str, key: str | None, method: str, params: bytes) -> None:
        self._live.connections.on_notification(server, key, method, params)

    # Tasks, resources, events and claims

    def on_task_notification(self, server: str, owner: ConnectionOwner | None, method: str, params: bytes) -> None:
        self._calls.tracker.on_notification(server, owner, method, params)

    def new_task_id(self) -> str:
        return self._calls.tracker.ledger.new_id()

    def watched_tasks(self, server: str) -> Sequence[str]:
        return self._calls.tracker.notifications.followed(server)

    def subscriptions(self, server: str, connection_key: str | None) -> Sequence[str]:
        return self._changes.subscriptions(server, connection_key)

    def on_event(self, server: str, params: bytes) -> None:
        self._server_event_subscriptions.on_event(server, params)

    def on_claim(self, server: str, method: str, params: bytes) -> None:
        self._claims.take(server, method, params)

    def on_state(self, upstream: Upstream, change: StateChange) -> None:
        """Record the change in the audit log, and publish it."""
        problem, command = upstream.problem, change.command
        self._journal.server_stepped(upstream.id, change, problem, given_up=upstream.given_up)
        if self._bus.wants(ServerStateChanged):
            reason = "" if problem is None else fault_for_agents(problem).message
            if command is not None:
                reason = f"{command.reason.value}, by {command.explained}"
            states = change.before.value, change.after.value
            number, at = self._bus.next(), now_us()
            self._bus.publish(ServerStateChanged(upstream.id, number, at, *states, reason, change.reason))

    def on_resource_updated(self, server: str, uri: str, connection_key: str | None) -> None:
        """Publish that a resource changed."""
        if self._bus.wants(ResourceUpdated):
            self._bus.publish(ResourceUpdated(server, self._bus.next(), now_us(), uri, connection_key))
