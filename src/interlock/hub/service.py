"""The hub as a service for transports: one for every address and both eras.

`handlers` answer the methods, `calls/pipeline` judges a call, and `calls/dispatch` sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from interlock.hub.authentication import Authenticator
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.bridges.retries import Retries
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.handlers.calls import CallHandler
from interlock.hub.handlers.client_extensions import for_mgp_method, speaking
from interlock.hub.handlers.lists import ListHandler
from interlock.hub.handlers.subscriptions import SubscriptionHandler
from interlock.hub.permissions.access_methods import AccessMethods
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.hub.upstreams.sharing import SessionState
from interlock.transports.exchange import Caller as AnyCaller
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Notification, check_shape


class Handlers(msgspec.Struct, frozen=True):
    """The handlers of the methods, one for each family."""

    calls: CallHandler
    lists: ListHandler
    subscriptions: SubscriptionHandler
    tasks: TaskHandler
    search: ToolSearchHandler
    access: AccessMethods

    def methods(self, background: BackgroundTasks) -> dict[str, Serve]:
        """Every method, with the function that answers it."""
        return {
            **self.calls.methods,
            **self.lists.methods,
            **self.subscriptions.methods,
            **self.tasks.methods,
            **_spoken_as_mgp({**self.search.methods, **self.access.methods(background)}),
        }


class SessionServices(msgspec.Struct, frozen=True):
    """The parts with state of sessions, or of calls that outlive a request."""

    discovery_tools: DiscoveryTools
    requests: RecordedRequests
    tracker: Tracker
    retries: Retries


class HubService:
    """Answers clients. It owns no connection and no configuration."""

    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        handlers: Handlers,
        sessions: SessionServices,
        limits: Limits,
        background: BackgroundTasks,
    ) -> None:
        self._authenticator = authenticator
        self.admit = authenticator.admit
        self.pipeline = pipeline
        self.calls = handlers.calls
        self.subscriptions = handlers.subscriptions
        self.tasks = handlers.tasks
        self._lists = handlers.lists
        self._sessions = sessions
        self._limits = limits
        self._background = background
        self._methods = handlers.methods(background)

    @property
    def open_calls(self) -> int:
        return self.pipeline.dispatcher.open_calls

    # The methods of a service, for transports

    def initialize(self, session: Session) -> bytes:
        """Open a session. It starts no server and waits for none."""
        caller = cast(Caller, session.caller)
        if not caller.current:
            session.caller = caller = self._authenticator.readmit(caller)
        session.dialect = speaking(session.dialect)
        session.state = SessionState()
        self.subscriptions.on_session_opened(session, caller)
        return self._lists.initialize_result(session.dialect, caller)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""
        request = exchange.request
        if exchange.dialect.mgp_offer is not None:
            exchange.dialect = speaking(exchange.dialect)
        try:
            serve = self._methods.get(request.method)
            if serve is None:
                raise _no_such_method(exchange)
            caller = cast(Caller, exchange.caller)  # admitted here, so one of ours
            params, limits = request.params, self._limits
            # Shorter params can be neither too deep nor have too many members.
            if len(params) > limits.members or params.count(b"{") + params.count(b"[") > limits.depth:
                self._check_shape(params, caller)
            if not caller.current:
                exchange.caller = caller = self._authenticator.readmit(caller)
            serve(exchange, caller)
        except Fault as fault:
            exchange.fail(fault)

    def _check_shape(self, params: bytes, caller: Caller) -> None:
        try:
            check_shape(params, self._limits)
        except Fault:
            self.count_malformed(caller)
            raise

    def on_notification(self, caller: AnyCaller, session: Session | None, notification: Notification) -> None:
        if session is not None:
            self.subscriptions.on_notification(session, notification)

    def check_rate(self, caller: AnyCaller) -> None:
        """Raise RATE_LIMITED if a rate is used up that every request of the caller counts for."""
        self._sessions.requests.check(cast(Caller, caller))

    def count_malformed(self, caller: AnyCaller) -> None:
        """Count a request that cannot be read for the caller's rates."""
        self._sessions.requests.malformed(cast(Caller, caller))

    def on_session_closed(self, session: Session) -> None:
        """Drop everything that belongs to a session."""
        caller = cast(Caller, session.caller)
        if isinstance(session.state, SessionState):
            self._sessions.discovery_tools.forget(session, caller)
            self._sessions.tracker.leave(session, session.state)
        self.subscriptions.on_session_closed(session, caller)

    async def close(self) -> None:
        """End the hub's own background work."""
        self.subscriptions.end()
        self._sessions.retries.close()
        self.pipeline.dispatcher.recovery.close()
        await self._background.close()
        await self._sessions.tracker.close()


def _no_such_method(exchange: Exchange) -> Fault:
    if exchange.request.method.startswith("mgp/"):
        exchange.dialect = for_mgp_method(exchange.dialect)
    return Fault("METHOD_NOT_FOUND", f"no such method: {exchange.request.method[:200]}")


def _spoken_as_mgp(methods: Mapping[str, Serve]) -> dict[str, Serve]:
    """Answer MGP's own methods in its dialect, whatever was negotiated."""

    def wrap(serve: Serve) -> Serve:
        def as_mgp(exchange: Exchange, caller: Caller) -> None:
            exchange.dialect = for_mgp_method(exchange.dialect)
            serve(exchange, caller)

        return as_mgp

    return {name: wrap(serve) if name.startswith("mgp/") else serve for name, serve in methods.items()}
