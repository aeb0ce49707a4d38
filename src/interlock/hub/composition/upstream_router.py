"""Connects servers to the parts of the hub that decide and record, and publishes the rest as events."""

from __future__ import annotations

from interlock.events import Bus
from interlock.events.types import ResourceUpdated, ServerStateChanged, now_us
from interlock.hub.audit.server_claims import ServerClaims
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.journal import Journal
from interlock.hub.upstreams.commands import StateChange
from interlock.hub.upstreams.event_feeds import EventFeeds
from interlock.hub.upstreams.upstream import Upstream


class UpstreamRouter:
    """Implements `UpstreamHost` with the parts of one hub."""

    def __init__(
        self,
        approvals: ApprovalParts,
        changes: ChangeNotifier,
        calls: CallParts,
        journal: Journal,
        claims: ServerClaims,
        bus: Bus,
        live: LiveParts,
        event_feeds: EventFeeds,
    ) -> None:
        self._journal = journal
        self._bus = bus
        self.prepare = approvals.server_policies.prepared
        self.on_offer = approvals.take
        self.on_claim = claims.take
        self.ask_client = calls.pipeline.ask_client
        self.on_event = event_feeds.on_event
        self.subscriptions = changes.subscriptions
        self.on_task_notification = calls.tracker.on_notification
        self.watched_tasks = calls.tracker.followed
        self.on_greeted = live.on_greeted
        self.on_connection_closed = live.connections.on_closed
        self.is_live = live.connections.is_live
        self.on_live_request = live.connections.on_request
        self.on_live_notification = live.connections.on_notification

    def on_state(self, upstream: Upstream, change: StateChange) -> None:
        """Record the change in the audit log, and publish it."""
        problem, command = upstream.problem, change.command
        self._journal.server_stepped(upstream.id, change, problem, given_up=upstream.given_up)
        if self._bus.wants(ServerStateChanged):
            reason = "" if problem is None else problem.message
            if command is not None:
                reason = f"{command.reason.value}, by {command.explained}"
            states = change.before.value, change.after.value
            number, at = self._bus.next(), now_us()
            self._bus.publish(ServerStateChanged(upstream.id, number, at, *states, reason, change.reason))

    def on_resource_updated(self, server: str, uri: str, connection_key: str | None) -> None:
        """Publish that a resource changed."""
        if self._bus.wants(ResourceUpdated):
            self._bus.publish(ResourceUpdated(server, self._bus.next(), now_us(), uri, connection_key))
