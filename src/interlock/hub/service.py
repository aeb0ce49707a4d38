"""The hub as a service for transports: one for every address and both eras.

`handlers` answer the methods, `calls/pipeline` judges a call, and `calls/dispatch` sends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import msgspec

from interlock.hub.audit.client_subscribers import AuditSubscribers
from interlock.hub.auth.access import Access
from interlock.hub.authentication import Authenticator
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import Retries
from interlock.hub.calls.call import Caller
from interlock.hub.calls.dispatch import result_pages as pages
from interlock.hub.calls.dispatch.dispatcher import CallQuota, Dispatcher
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.result_postprocessing import ResultPostprocessor
from interlock.hub.calls.pipeline.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.refusals import Refusals
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.views import Catalog
from interlock.hub.handlers.calls import CallHandler
from interlock.hub.handlers.client_extensions import for_mgp_method, speaking
from interlock.hub.handlers.lists import ListHandler
from interlock.hub.handlers.name_resolution import NameResolution
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.handlers.subscriptions import SubscriptionHandler
from interlock.hub.permissions.access_methods import AccessMethods
from interlock.hub.sessions.registry import Clients
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.permissions import Risk
from interlock.transports.call_parking import CallParking
from interlock.transports.exchange import Caller as AnyCaller
from interlock.transports.sessions.registry import SessionLimits
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker
from interlock.wire.limits import Limits
from interlock.wire.messages import Notification, check_shape


class ListServices(msgspec.Struct, frozen=True):
    """The parts that list tools for clients and notify them of changes."""

    catalog: Catalog
    listings: ToolListings
    secured: SecurityListing
    discovery_tools: DiscoveryTools
    change_notifier: ChangeNotifier
    audience: AuditSubscribers
    kept: pages.Pages
    info: bytes
    """The hub's `serverInfo`."""


class AccessServices(msgspec.Struct, frozen=True):
    """The parts that authenticate callers and decide on their access."""

    authenticator: Authenticator
    access: Access
    access_methods: AccessMethods


class CallState(msgspec.Struct, frozen=True):
    """State that outlives a request: request states, parked calls and tasks."""

    states: RequestStates
    parking: CallParking
    tracker: Tracker
    worker: Worker
    """The node and worker that ids name."""


class ServiceLimits(msgspec.Struct, frozen=True):
    """The limits of one request, and of all open calls."""

    limits: Limits
    room: CallQuota
    sessions: SessionLimits


class CallPolicy(Protocol):
    """Builds the pipeline and judges results."""

    def pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        """The pipeline; it hands calls that pass to `dispatch`."""

    def finish_of(self, target: Target) -> ResultPostprocessor | None:
        """The postprocessor of a target's results, if it has one."""

    def risk_of(self, tool: Tool) -> Risk:
        """The effective risk of a tool."""


class HubService:
    """Answers clients. It owns no connection and no configuration."""

    def __init__(
        self,
        rights: AccessServices,
        shown: ListServices,
        upstreams: Upstreams,
        kept: CallState,
        judging: CallPolicy,
        recording: Recording,
        bounds: ServiceLimits,
        clock: Callable[[], float],
    ) -> None:
        authenticator, access, catalog, discovery_tools = (
            rights.authenticator,
            rights.access,
            shown.catalog,
            shown.discovery_tools,
        )
        tracker, info = kept.tracker, shown.info
        self._authenticator = authenticator
        self.admit = authenticator.admit
        self._discovery_tools = discovery_tools
        self._tracker = tracker
        self._limits = bounds.limits
        self._worker = kept.worker
        self.clients = Clients(bounds.sessions, time.monotonic, self._on_session_opened, self._on_session_ended)
        self._background_tasks = BackgroundTasks()
        self._retries = Retries(kept.parking)
        later = self._background_tasks.begin
        self._lists = ListHandler(shown.listings, shown.secured, discovery_tools.contexts, upstreams, info, later)
        self.tasks = TaskHandler(
            tracker,
            later,
            recording.end_later,
            offered=self._lists.offers_tasks,
            finish_of=judging.finish_of,
            clock=clock,
        )
        self.sending = Dispatcher(
            upstreams, recording, kept.states, self._retries, self.tasks.prepare, bounds.room, later, clock
        )
        self._pipeline = judging.pipeline(self.sending.commit, self.sending.dispatch, self.sending.done)
        self.recovering = CallRecovery(self._pipeline, catalog, judging.risk_of, recording, clock)
        self.sending.judge_with(self._pipeline, self.recovering)
        resolving = NameResolution(catalog, access, upstreams)
        search_handler = ToolSearchHandler(discovery_tools, later)
        self.calls = CallHandler(self._pipeline, resolving, search_handler, recording, shown.kept, info, later, clock)
        discovery_tools.may_call = self.calls.may_call
        self.subscriptions = SubscriptionHandler(
            shown.change_notifier,
            shown.audience,
            upstreams,
            resolving,
            self.calls.reach,
            self.tasks,
            later,
            self.clients,
        )
        self._methods: dict[str, Serve] = {
            **self.calls.methods,
            **self._lists.methods,
            **self.subscriptions.methods,
            **self.tasks.methods,
            **_spoken_as_mgp({**search_handler.methods, **rights.access_methods.methods(later)}),
        }

    @property
    def open_calls(self) -> int:
        return self.sending.open_calls

    @property
    def held_calls(self) -> int:
        """Calls that wait for a check or an answer."""
        return self._pipeline.held

    @property
    def refusals(self) -> Refusals:
        """The latest refusals."""
        return self._pipeline.refusals

    # The methods of a service, for transports

    def open_session(self, channel: SessionChannel, caller: AnyCaller, dialect: Dialect) -> tuple[Session, bytes]:
        """Open a session. It starts no server and waits for none."""
        known = cast(Caller, caller)  # admitted here, so one of ours
        if not known.standing:
            known = self._authenticator.readmit(known)
        session = Session(self._worker.new_id(), channel, known, speaking(dialect))
        result = self._lists.initialize_result(session.dialect, known)
        self.clients.sessions.open(session)
        return session, result

    def resume_session(self, channel: SessionChannel, id: str, caller: AnyCaller) -> Session | None:
        """Go on with a session that was open when the hub stopped. Its lists may have changed since."""
        kept = self.clients.resumable.take(id, caller.owner)
        if kept is None:
            return None
        known = cast(Caller, caller)  # admitted here, so one of ours
        session = Session(id, channel, known, speaking(kept.dialect))
        session.log_level = kept.log_level
        self.clients.sessions.open(session)
        session.confirm()
        asyncio.get_running_loop().call_soon(self.subscriptions.on_session_resumed, session)
        return session

    def end_session(self, session: Session, event: SessionEvent, reason: str) -> None:
        """End a session, unless it is over already."""
        self.clients.sessions.end(session, event, reason)

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
            # As few bytes as that can be neither too deep nor too many.
            if len(params) > limits.members or params.count(b"{") + params.count(b"[") > limits.depth:
                self._check_shape(params, caller)
            if not caller.standing:
                exchange.caller = caller = self._authenticator.readmit(caller)
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

    def on_notification(self, caller: AnyCaller, session: Session | None, notification: Notification) -> None:
        if session is not None:
            self.subscriptions.on_notification(session, notification)

    def check_rate(self, caller: AnyCaller) -> None:
        """Whether a rate is used up that every request of the caller counts for."""
        self._discovery_tools.governed.check(cast(Caller, caller))

    def count_malformed(self, caller: AnyCaller) -> None:
        """A request that cannot be read uses up the caller's rates like one that can."""
        self._discovery_tools.governed.malformed(cast(Caller, caller))

    def _on_session_opened(self, session: Session) -> None:
        self.subscriptions.on_session_opened(session)

    def _on_session_ended(self, session: Session, event: SessionEvent) -> None:
        """Drop everything that belongs to a session."""
        if event is SessionEvent.SHUT_DOWN and session.channel.transport == "http":
            self.clients.resumable.keep(session)
        self._discovery_tools.forget(session)
        self._tracker.leave(session)
        self.subscriptions.on_session_ended(session)
        # Each of these refers to the session in turn.
        session.connection_keys.clear()

    async def close(self) -> None:
        """End the hub's own background work."""
        self.clients.sessions.close()
        self.subscriptions.end()
        self._retries.close()
        self.recovering.close()
        await self._background_tasks.close()
        await self._tracker.close()


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
