"""Notifications of extensions that the hub sends by itself: MGP's audit records, states of servers, and events.

A session of the handshake era gets the extensions that it agreed on. A client of the stateless era gets what the filter
`dev.cloto/mgp` of its listen stream names, and with `dev.interlock/live` messages of servers (MCPL).
"""

from __future__ import annotations

from collections.abc import Hashable

from interlock.hub.audit.client_subscribers import AuditSubscribers
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.event_subscriptions import EventSubscriptions
from interlock.hub.handlers.lifecycle_notifier import LifecycleNotifier, Notify
from interlock.hub.handlers.notifications import MgpFilter
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.sessions.session import Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.methods import agreed_on


class ExtensionNotifiers:
    """Notifies sessions and listen streams of what MGP and MCPL add: audit entries, lifecycle, events."""

    def __init__(
        self, audit: AuditSubscribers, lifecycle: LifecycleNotifier, events: EventSubscriptions, hosts: ClientHosts
    ) -> None:
        self.hosts = hosts
        self._audit = audit
        self._lifecycle = lifecycle
        self._events = events

    def on_session_opened(self, session: Session) -> None:
        """Notify a session of what it agreed on."""
        caller, dialect = session.caller, session.dialect
        self._audit.join(session.id, caller.principal, dialect, session.notify)
        self._lifecycle.join(session.id, caller.principal, caller.view, dialect, session.notify)

    async def open_stream(
        self, stream: Hashable, caller: Caller, wanted: MgpFilter, dialect: Dialect, notify: Notify
    ) -> dict[str, object]:
        """Notify a listen stream of what it asked for. Returns the part of the filter that it gets."""
        accepted: dict[str, object] = {"tools": True} if wanted.tools else {}
        if wanted.audit and self._audit.join(stream, caller.principal, dialect, notify):
            accepted["audit"] = True
        if wanted.lifecycle and self._lifecycle.join(stream, caller.principal, caller.view, dialect, notify):
            accepted["lifecycle"] = True
        if wanted.events is not None and agreed_on(dialect, "bidirectional"):
            accepted["events"] = await self._events.subscribe(
                stream, caller.principal, caller.view, wanted.events, notify
            )
        return accepted

    def leave(self, client: Hashable) -> None:
        """Stop notifying a session or a stream."""
        self._audit.leave(client)
        self._lifecycle.leave(client)
        self._events.leave(client)
