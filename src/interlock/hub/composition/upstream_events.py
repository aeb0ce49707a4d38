"""Takes the events of all servers to the parts of the hub that they concern."""

from __future__ import annotations

from typing import Protocol

from interlock.hub.audit.server_claims import ServerClaims
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.journal import Journal
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.commands import StateChange
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream


class ConnectedListener(Protocol):
    """Hears of servers that were just connected."""

    def on_connected(self, upstream: Upstream) -> None:
        """A server is connected."""


class UpstreamEventRouter:
    """Implements `UpstreamHost` with the parts of one hub."""

    def __init__(
        self,
        approvals: ApprovalParts,
        changes: ChangeNotifier,
        tasks: Tracker,
        journal: Journal,
        claims: ServerClaims,
        connected: ConnectedListener,
    ) -> None:
        self._journal = journal
        self._connected = connected
        self.prepare = approvals.server_policies.prepared
        self.on_offer = approvals.take
        self.on_claim = claims.take
        self.on_resource_updated = changes.resource_updated
        self.subscriptions = changes.subscriptions
        self.on_task_notification = tasks.on_notification
        self.watched_tasks = tasks.followed

    def on_state(self, upstream: Upstream, change: StateChange) -> None:
        """Record the change in the audit log, and report a server that is connected."""
        self._journal.server_stepped(upstream.id, change, upstream.problem, given_up=upstream.given_up)
        if change.after is ServerState.CONNECTED:
            self._connected.on_connected(upstream)
