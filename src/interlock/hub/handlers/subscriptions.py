"""What clients want to hear of: the listen streams of the stateless era, a session's subscriptions and log level."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, Protocol

import msgspec

from interlock.hub.audit.client_subscribers import AuditSubscribers
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import Later, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.pipeline import Resolve
from interlock.hub.catalog.target import Target
from interlock.hub.handlers.listeners import MOST_SUBSCRIPTIONS, FollowTasks, ListenStream, SessionListener
from interlock.hub.handlers.name_resolution import NameResolution
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.handlers.resource_subscriptions import ResourceSubscriptions
from interlock.hub.tool_search.searching_clients import list_scope_for
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.server_requests import HEARD
from interlock.hub.upstreams.sharing import SessionState
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.mcp.results import EMPTY
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault
from interlock.wire.messages import Notification

MOST_LISTENING: Final = 10_000


class Reach(Protocol):
    """Finds what a caller may hear of. Raises a `Fault` for what is not there for it."""

    def __call__(
        self, caller: Caller, kind: Literal["resource"], name: str, resolve: Resolve, asked: Exchange | None = None
    ) -> Target: ...


class SubscriptionHandler:
    """Answers those who want to hear, and ends with a session what was its own."""

    def __init__(
        self,
        change_notifier: ChangeNotifier,
        audience: AuditSubscribers,
        upstreams: Upstreams,
        resolving: NameResolution,
        reach: Reach,
        follow: FollowTasks,
        later: Later,
    ) -> None:
        self.open: set[ListenStream] = set()
        """The streams that only listen."""
        self._change_notifier = change_notifier
        self._audience = audience
        self._upstreams = upstreams
        self._resolving = resolving
        self._reach = reach
        self._follow = follow
        self._later = later
        self._subscriptions = ResourceSubscriptions(change_notifier, upstreams)

    @property
    def methods(self) -> dict[str, Serve]:
        """What clients may send."""
        return {
            "subscriptions/listen": self._listen,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    def opened(self, session: Session, caller: Caller) -> None:
        """A session hears of what changes for it."""
        self._change_notifier.listen(
            SessionListener.of(session, list_scope_for(caller.list_scope, session.dialect.client_info))
        )
        self._audience.join(session.id, caller.principal, session.dialect, session.notify)

    def on_session_closed(self, session: Session, caller: Caller) -> None:
        """It hears nothing more, and the connections that were opened for it are closed."""
        self._change_notifier.leave(
            SessionListener.of(session, list_scope_for(caller.list_scope, session.dialect.client_info))
        )
        self._audience.leave(session.id)
        state = session.state
        if not isinstance(state, SessionState):
            return
        for server, uri in list(state.subscriptions):
            self._subscriptions.drop(server, uri, session.id)
        for server, name in state.private_connections:
            upstream = self._upstreams.get(server)
            if upstream is not None:
                upstream.close_private_connection(name)

    def on_notification(self, session: Session, notification: Notification) -> None:
        """A client's notification, for the servers that have a session for this client: changed roots, and what
        becomes of that which they asked of it."""
        if notification.method == "notifications/roots/list_changed":
            for _, line in self._private_connections(session):
                line.connection.tell(notification.method, notification.params)
        elif notification.method in HEARD:
            for _, line in self._private_connections(session):
                if line.owner is not None:
                    line.owner.questions.on_notification(line.connection, notification.method, notification.params)

    def look_again(self, is_good: Callable[[Principal], bool]) -> None:
        """The streams end of those whose credential is worth nothing any more."""
        for listening in list(self.open):
            if not is_good(listening.principal):
                listening.end("the credential that opened it is no longer good")

    def end(self) -> None:
        """Listen streams end as the specification has it."""
        for listening in list(self.open):
            listening.end("the hub is closing")

    def _listen(self, exchange: Exchange, caller: Caller) -> None:
        if len(self.open) >= MOST_LISTENING:
            raise Fault("RESOURCE_EXHAUSTED", f"{MOST_LISTENING} streams are open", retry_after_ms=5000)
        listening = ListenStream(
            exchange,
            caller,
            list_scope_for(caller.list_scope, exchange.dialect.client_info),
            self._change_notifier,
            partial(self._reached, caller),
            self._subscriptions,
            self._audience,
            self.open.discard,
            self._follow,
        )
        listening.start()
        self.open.add(listening)

    def _reached(self, caller: Caller, uri: str) -> tuple[str, str] | None:
        """The server and its own address of a resource, while the caller may have it. Asked again before each telling:
        what was taken back holds for open streams, too."""
        try:
            target = self._reach(caller, "resource", uri, self._resolving.resource)
        except Fault:
            return None
        return target.server, target.name

    def _subscribe(self, exchange: Exchange, caller: Caller) -> None:
        session, state = _session(exchange)
        uri = exchange.preview.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must say which resource")
        if len(state.subscriptions) >= MOST_SUBSCRIPTIONS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session may watch {MOST_SUBSCRIPTIONS} resources")
        target = self._reach(caller, "resource", uri, self._resolving.resource, exchange)
        self._later(self._subscribe_for(exchange, caller, session, state, target, uri))

    async def _subscribe_for(
        self, exchange: Exchange, caller: Caller, session: Session, state: SessionState, target: Target, uri: str
    ) -> None:
        params = msgspec.json.encode({"uri": uri})

        def tell() -> None:
            if self._reached(caller, uri) is not None:
                session.notify("notifications/resources/updated", params)

        try:
            await self._subscriptions.add(target.server, target.name, session.id, tell, exchange)
        except Fault as fault:
            exchange.fail(fault)
            return
        state.subscriptions[target.server, target.name] = uri
        exchange.result(EMPTY)

    def _unsubscribe(self, exchange: Exchange, caller: Caller) -> None:
        session, state = _session(exchange)
        target = self._resolving.resource(caller, exchange.preview.uri or "")
        if state.subscriptions.pop((target.server, target.name), None) is not None:
            self._subscriptions.drop(target.server, target.name, session.id)
        exchange.result(EMPTY)

    def _set_level(self, exchange: Exchange, caller: Caller) -> None:
        session, state = _session(exchange)
        try:
            level = msgspec.json.decode(exchange.request.params, type=_Level).level
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"level: {cause}") from None
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown log level {level[:40]!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
        state.log_level = level
        for upstream, _ in self._private_connections(session):
            self._later(upstream.set_level(f"session:{session.id}", level))
        exchange.result(EMPTY)

    def _private_connections(self, session: Session) -> list[tuple[Upstream, UpstreamConnection]]:
        state = session.state
        if not isinstance(state, SessionState):
            return []
        found = ((self._upstreams.get(server), name) for server, name in state.private_connections)
        lines = ((upstream, upstream.private_connection(name)) for upstream, name in found if upstream is not None)
        return [(upstream, line) for upstream, line in lines if line is not None]


def _session(exchange: Exchange) -> tuple[Session, SessionState]:
    session = exchange.session
    if session is None or not isinstance(session.state, SessionState):
        raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session")
    return session, session.state


class _Level(msgspec.Struct):
    level: str
