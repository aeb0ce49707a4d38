"""The hub as a service for transports: one for every address and both eras.

`handlers` answer the methods, `calls/pipeline` judges a call, and `calls/dispatch` sends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.hub.authentication import Authenticator
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.bridges.retries import Retries
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.handlers.callbacks import CallbackHandler
from interlock.hub.handlers.calls import CallHandler
from interlock.hub.handlers.client_extensions import speaking
from interlock.hub.handlers.client_hooks import ClientHookHandler
from interlock.hub.handlers.event_methods import EventMethods
from interlock.hub.handlers.health import HealthHandler
from interlock.hub.handlers.host_methods import HostMethods
from interlock.hub.handlers.lifecycle import LifecycleHandler
from interlock.hub.handlers.lists import ListHandler
from interlock.hub.handlers.mgp_operations import MgpOperationsHandler
from interlock.hub.handlers.rooms import RoomHandler
from interlock.hub.handlers.streams import StreamHandler
from interlock.hub.handlers.subscriptions import SubscriptionHandler
from interlock.hub.sessions.clients import Clients
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.health import PING, STATUS
from interlock.protocols.mgp.lifecycle import SHUTDOWN
from interlock.protocols.mgp.methods import check_agreed
from interlock.transports.exchange import SessionExchange
from interlock.transports.sessions.registry import SessionLimits
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker
from interlock.wire.limits import Limits
from interlock.wire.messages import Notification
from interlock.wire.payload_checks import check_shape

STILL_SERVED: Final = frozenset(
    {PING, STATUS, SHUTDOWN, "mgp/stream/cancel", "mgp/callback/respond", "tasks/get", "tasks/result", "tasks/cancel"}
)
"""Methods that begin no work, answered while the hub shuts down."""


class MethodHandlers(msgspec.Struct, frozen=True):
    """The handlers of the methods, one for each family."""

    calls: CallHandler
    lists: ListHandler
    subscriptions: SubscriptionHandler
    rooms: RoomHandler
    tasks: TaskHandler
    search: ToolSearchHandler
    operations: MgpOperationsHandler
    health: HealthHandler
    streams: StreamHandler
    callbacks: CallbackHandler
    lifecycle: LifecycleHandler
    events: EventMethods
    hosts: HostMethods
    client_hooks: ClientHookHandler

    @property
    def methods(self) -> dict[str, Serve]:
        """Every method, with the function that answers it."""
        return {
            **self.calls.methods,
            **self.lists.methods,
            **self.subscriptions.methods,
            **self.tasks.methods,
            **self.hosts.methods,
            **_if_agreed(
                {
                    **self.search.methods,
                    **self.operations.methods,
                    **self.health.methods,
                    **self.streams.methods,
                    **self.callbacks.methods,
                    **self.lifecycle.methods,
                    **self.events.methods,
                }
            ),
        }


class SessionServices(msgspec.Struct, frozen=True):
    """The parts with state of sessions, or of calls that outlive a request."""

    discovery_tools: DiscoveryTools
    requests: RecordedRequests
    tracker: Tracker
    retries: Retries
    worker: Worker
    """The node and worker that ids name."""
    limits: SessionLimits


class HubService:
    """Answers clients. It owns no connection and no configuration."""

    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        handlers: MethodHandlers,
        sessions: SessionServices,
        limits: Limits,
        background: BackgroundTasks,
    ) -> None:
        self._authenticator = authenticator
        self.admit = authenticator.admit
        """The authenticator's own method: every request uses it."""
        self.pipeline = pipeline
        self.calls = handlers.calls
        self.subscriptions = handlers.subscriptions
        self.tasks = handlers.tasks
        self.rooms = handlers.rooms
        self.hosts = handlers.hosts
        self.client_hooks = handlers.client_hooks
        self._lists = handlers.lists
        self._sessions = sessions
        self._limits = limits
        self._background = background
        self._methods = handlers.methods
        self.clients = Clients(
            sessions.limits,
            time.monotonic,
            handlers.subscriptions.streams,
            authenticator,
            background,
            self._on_session_opened,
            self._on_session_ended,
        )
        handlers.hosts.keep_with(self.clients.resumable)

    @property
    def open_calls(self) -> int:
        return self.pipeline.dispatcher.open_calls

    @property
    def background_tasks(self) -> int:
        """Tasks of requests that are not answered at once, such as lists that wait for servers to start."""
        return len(self._background)

    # The methods of a service, for transports

    @property
    def worker(self) -> Worker:
        """The node and worker that ids of sessions and streams name."""
        return self._sessions.worker

    def prepare_session(self, caller: Caller, dialect: Dialect) -> asyncio.Future[None] | None:
        """Begin to find the tools that the result of `initialize` names, where they are not known."""
        return self._lists.prepare_introduction(dialect, caller)

    def open_session(self, channel: SessionChannel, caller: Caller, dialect: Dialect) -> tuple[Session, bytes]:
        """Open a session. It starts no server and waits for none."""
        if not caller.current:
            caller = self._authenticator.readmit(caller)
        new_id = self.worker.new_id()
        session = Session(new_id, channel, caller, speaking(dialect), self.clients.resumable)
        result = self._lists.initialize_result(session.dialect, caller, channel.transport)
        self.clients.sessions.open(session)
        return session, result

    def introduce(self, dialect: Dialect, caller: Caller) -> bytes:
        """The result of `initialize` for a caller without a session, such as a participant of a room."""
        return self._lists.initialize_result(dialect, caller)

    def resume_session(self, channel: SessionChannel, id: str, caller: Caller) -> Session | None:
        """Go on with a session that was open when the hub stopped or was killed. Its lists may have changed since."""
        kept = self.clients.resumable.take(id, caller.principal_name)
        if kept is None:
            return None
        session = Session(id, channel, caller, speaking(kept.dialect), self.clients.resumable, kept.state)
        self.clients.sessions.open(session)
        session.confirm()
        asyncio.get_running_loop().call_soon(self.subscriptions.on_session_resumed, session, caller)
        return session

    def end_session(self, session: Session, event: SessionEvent, reason: str) -> None:
        """End a session, unless it is over already."""
        self.clients.sessions.end(session, event, reason)

    def end_calls(self, principal_name: str, reason: str) -> int:
        """End the calls of a principal that belong to no session, and those that its clients could continue. Returns
        how many were open. A call that waits for a client at its server alone is not among those, and cannot go on."""
        calls = self.clients.end_calls(principal_name, reason)
        self._sessions.retries.end(principal_name)
        self.pipeline.dispatcher.states.end(principal_name, asyncio.get_running_loop().time())
        return calls

    def serve(self, exchange: SessionExchange[Session, Caller]) -> None:
        """Answer a request, now or later."""
        request = exchange.request
        if exchange.dialect.mgp_offer is not None:
            exchange.speak(speaking(exchange.dialect))
        try:
            serve = self._methods.get(request.method)
            if serve is None:
                raise Fault("METHOD_NOT_FOUND", f"no such method: {request.method[:200]}")
            caller = exchange.caller
            params, limits = request.params, self._limits
            # Shorter params can be neither too deep nor have too many members.
            if len(params) > limits.members or params.count(b"{") + params.count(b"[") > limits.depth:
                self._check_shape(params, caller)
            if not caller.current:
                caller = self._authenticator.readmit(caller)
                exchange.readmit(caller)
            caller.last_dialect = exchange.dialect
            serve(exchange, caller)
        except Fault as fault:
            exchange.fail(fault)

    def _check_shape(self, params: bytes, caller: Caller) -> None:
        try:
            check_shape(params, self._limits)
        except Fault:
            self.count_malformed(caller)
            raise

    def on_notification(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        self.hosts.on_notification(caller, session, notification)
        if session is not None:
            self.subscriptions.on_notification(session, notification)

    def check_rate(self, caller: Caller) -> None:
        """Raise RATE_LIMITED if a rate is used up that every request of the caller counts for."""
        self._sessions.requests.check(caller)

    def count_malformed(self, caller: Caller) -> None:
        """Count a request that cannot be read for the caller's rates."""
        self._sessions.requests.malformed(caller)

    def _on_session_opened(self, session: Session) -> None:
        self.hosts.on_session_opened(session)
        self.clients.resumable.keep(session)
        self.subscriptions.on_session_opened(session)

    def _on_session_ended(self, session: Session, event: SessionEvent) -> None:
        """Drop everything that belongs to a session."""
        if event is not SessionEvent.SHUT_DOWN:
            self.clients.resumable.forget(session)
        self._sessions.discovery_tools.forget(session)
        self._sessions.tracker.leave(session)
        self.hosts.on_session_ended(session)
        self.subscriptions.on_session_ended(session)
        # Each of these refers to the session in turn.
        session.connection_keys.clear()

    def drain(self, fault: Fault) -> None:
        """Refuse new work with a fault. Health and what belongs to open calls is still answered."""

        def refuse(exchange: Exchange, caller: Caller) -> None:
            raise Fault(fault.name, fault.message, retry_after_ms=fault.retry_after_ms)

        self._methods = {name: serve if name in STILL_SERVED else refuse for name, serve in self._methods.items()}

    async def close(self) -> None:
        """End the hub's own background work."""
        self.clients.sessions.close()
        self.subscriptions.end()
        self._sessions.retries.close()
        self.pipeline.dispatcher.recovery.close()
        await self._background.close()
        await self._sessions.tracker.close()


def _if_agreed(methods: Mapping[str, Serve]) -> dict[str, Serve]:
    """Answer MGP's methods, each for clients alone that agreed on its extension."""

    def guarded(method: str, serve: Serve) -> Serve:
        def answer(exchange: Exchange, caller: Caller) -> None:
            check_agreed(exchange.dialect, method)
            serve(exchange, caller)

        return answer

    return {method: guarded(method, serve) for method, serve in methods.items()}
