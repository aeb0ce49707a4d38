"""Handles subscriptions of clients: listen streams (stateless era), and a session's resources and log level."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from interlock.events.types import SessionEnded, SessionOpened, now_us
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.calls.name_resolution import NameResolution
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.catalog.target import Target
from interlock.hub.handlers.extension_notifiers import ExtensionNotifiers
from interlock.hub.handlers.listeners import MAX_SUBSCRIPTIONS, ListenStream, SessionListener
from interlock.hub.handlers.notifications import KINDS, ChangeNotifier
from interlock.hub.handlers.own_resources import OwnResources
from interlock.hub.handlers.resource_subscriptions import ResourceSubscriptions
from interlock.hub.sessions.client_claims import claim_of
from interlock.hub.sessions.open_streams import OpenStreams
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.server_requests import CLIENT_NOTIFICATIONS
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.mcp.results import EMPTY
from interlock.transports.exchange import session_of
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json
from interlock.wire.messages import Notification

MAX_NAME: Final = 128
"""Of a client's own name for itself, in events."""


class SubscriptionHandler:
    """Opens and ends the subscriptions of clients."""

    def __init__(
        self,
        change_notifier: ChangeNotifier,
        extension_notifiers: ExtensionNotifiers,
        upstreams: Upstreams,
        names: NameResolution,
        pipeline: Pipeline,
        tasks: TaskHandler,
        own: OwnResources,
        background: BackgroundTasks,
    ) -> None:
        self.streams = OpenStreams()
        """The open listen streams."""
        self._listeners: dict[Session, SessionListener] = {}
        self._change_notifier = change_notifier
        self._extensions = extension_notifiers
        self._upstreams = upstreams
        self._names = names
        self._pipeline = pipeline
        self._tasks = tasks
        self._own = own
        self._background = background
        self._subscriptions = ResourceSubscriptions(change_notifier, upstreams)

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {
            "subscriptions/listen": self._listen,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    def on_session_opened(self, session: Session) -> None:
        """Notify a session of changes from now on."""
        listener = self._listeners[session] = SessionListener.of(session)
        self._change_notifier.listen(listener)
        self._extensions.on_session_opened(session)
        bus = self._change_notifier.bus
        if bus.wants(SessionOpened):
            who, client = session.caller.principal.id, claim_of(session.dialect).name
            bus.publish(SessionOpened("sessions", bus.next(), now_us(), session.handle, who, client))

    def on_session_resumed(self, session: Session, caller: Caller) -> None:
        """Tell a session of an earlier run to read every list again, and watch its resources again."""
        if session.over:
            return
        for which in KINDS:
            session.notify(f"notifications/{which}/list_changed", b"{}")
        for (server, uri), address in list(session.subscriptions.items()):
            self._background.begin(self._watch_again(session, caller, Target("resource", server, uri), address), None)

    def on_session_ended(self, session: Session) -> None:
        """End the subscriptions of a session, and close the connections that were opened for it."""
        self._change_notifier.leave(self._listeners.pop(session))
        self._extensions.leave(session.id)
        bus = self._change_notifier.bus
        if bus.wants(SessionEnded):
            who = session.caller.principal.id
            bus.publish(SessionEnded("sessions", bus.next(), now_us(), session.handle, who))
        self._subscriptions.drop(list(session.subscriptions), session.id)
        for server, name in session.private_connections:
            upstream = self._upstreams.get(server)
            if upstream is not None:
                upstream.pool.release(name)

    def on_notification(self, session: Session, notification: Notification) -> None:
        """Pass a client's notification to the servers with a session for this client: changed roots, and progress
        of the requests that they sent to the client."""
        method, params = notification.method, notification.params
        for _, private in self._private_connections(session):
            if method == "notifications/roots/list_changed":
                private.connection.tell(method, params)
            elif method in CLIENT_NOTIFICATIONS and private.owner is not None:
                private.owner.questions.on_notification(private.connection, method, params)

    def end(self) -> None:
        """End every listen stream with a result, as the specification requires."""
        for stream in self.streams:
            stream.end("the hub is closing")

    def _listen(self, exchange: Exchange, caller: Caller) -> None:
        self.streams.check(caller.principal_name)
        stream = ListenStream(
            exchange,
            caller,
            self._change_notifier,
            partial(self._resolve, caller),
            self._subscriptions,
            self._extensions,
            self.streams.discard,
            self._tasks,
        )
        opening = stream.start()
        self.streams.add(stream)
        self._background.begin(opening, exchange)

    def _resolve(self, caller: Caller, uri: str) -> tuple[str, str] | None:
        """The server of a resource and the server's own address for it; None where the caller may not have it.

        The hub checks this before each notification, so that a revoked right also ends open subscriptions.
        """
        try:
            target = self._reach(caller, uri)
        except Fault:
            return None
        return target.server, target.name

    def _reach(self, caller: Caller, uri: str, exchange: Exchange | None = None) -> Target:
        """The target of a resource's address. Raises a `Fault` where the caller may not reach it."""
        return self._own.target(caller, uri) or self._pipeline.reach(caller, "resource", uri, exchange)

    def _subscribe(self, exchange: Exchange, caller: Caller) -> None:
        session = session_of(exchange)
        uri = exchange.preview.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must name a resource")
        if len(session.subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session may watch {MAX_SUBSCRIPTIONS} resources")
        target = self._reach(caller, uri, exchange)
        self._background.begin(self._subscribe_for(exchange, caller, session, target, uri), exchange)

    async def _subscribe_for(
        self, exchange: Exchange, caller: Caller, session: Session, target: Target, uri: str
    ) -> None:
        try:
            notify = self._notifier(session, caller, uri)
            await self._subscriptions.add(target.server, target.name, session.id, notify, exchange)
        except Fault as fault:
            exchange.fail(fault)
            return
        if session.over:
            self._subscriptions.drop([(target.server, target.name)], session.id)
            return
        session.subscribed(target.server, target.name, uri)
        exchange.result(EMPTY)

    async def _watch_again(self, session: Session, caller: Caller, target: Target, uri: str) -> None:
        """Go on with a subscription of an earlier run, if the caller still may have the resource.

        The resource may have changed while no hub ran, so the client is told to read it again.
        """
        server, name = target.server, target.name
        notify = self._notifier(session, caller, uri)
        try:
            if self._resolve(caller, uri) != (server, name):
                raise Fault("RESOURCE_NOT_FOUND", "the resource is no longer there")
            await self._subscriptions.add(server, name, session.id, notify, session.origin)
        except Fault as fault:
            if fault.name not in ("SERVER_NOT_READY", "SERVER_RESTARTING"):
                session.unsubscribed(server, name)
                return
            self._subscriptions.expect(server, name, session.id, notify, caller.principal_name)
        if session.over or (server, name) not in session.subscriptions:
            self._subscriptions.drop([(server, name)], session.id)
        else:
            notify()

    def _notifier(self, session: Session, caller: Caller, uri: str) -> Callable[[], None]:
        params = msgspec.json.encode({"uri": uri})

        def notify() -> None:
            if self._resolve(caller, uri) is not None:
                session.notify("notifications/resources/updated", params)

        return notify

    def _unsubscribe(self, exchange: Exchange, caller: Caller) -> None:
        session = session_of(exchange)
        uri = exchange.preview.uri or ""
        target = self._own.target(caller, uri) or self._names.resource(caller, uri)
        if session.unsubscribed(target.server, target.name):
            self._subscriptions.drop([(target.server, target.name)], session.id)
        exchange.result(EMPTY)

    def _set_level(self, exchange: Exchange, caller: Caller) -> None:
        session = session_of(exchange)
        level = decode_json(exchange.request.params, _Level, "INVALID_PARAMS", "level").level
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown log level {level[:40]!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
        session.wants_logs(level)
        for upstream, _ in self._private_connections(session):
            self._background.begin(upstream.pool.set_log_level(f"session:{session.id}", level), None)
        exchange.result(EMPTY)

    def _private_connections(self, session: Session) -> list[tuple[Upstream, UpstreamConnection]]:
        found = ((self._upstreams.get(server), name) for server, name in session.private_connections)
        pairs = ((upstream, upstream.pool.private.get(name)) for upstream, name in found if upstream is not None)
        return [(upstream, private) for upstream, private in pairs if private is not None]


class _Level(msgspec.Struct):
    level: str
