"""The hub as clients meet it: one service for every address, both eras.

Each method is answered at a desk of `desks`; what happens to a call stands in `pipeline`, and how it travels in
`forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

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
from interlock.hub.calls.dispatch.trails import Trails
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
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.hub.upstreams.sharing import SessionState
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mgp.permissions import Risk
from interlock.transports.call_parking import CallParking
from interlock.transports.exchange import Caller as AnyCaller
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Notification, check_shape


class HubService:
    """Serves clients. Owns no connection and no configuration: those it is given."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        catalog: Catalog,
        listings: ToolListings,
        secured: SecurityListing,
        discovery_tools: DiscoveryTools,
        access: Access,
        access_methods: AccessMethods,
        upstreams: Upstreams,
        change_notifier: ChangeNotifier,
        audience: AuditSubscribers,
        make_pipeline: Callable[[Commit, Dispatch, Release], Pipeline],
        states: RequestStates,
        recording: Recording,
        kept: pages.Pages,
        parking: CallParking,
        tracker: Tracker,
        finish_of: Callable[[Target], ResultPostprocessor | None],
        limits: Limits,
        info: bytes,
        room: CallQuota,
        risk_of: Callable[[Tool], Risk],
        clock: Callable[[], float],
    ) -> None:
        self._authenticator = authenticator
        self.admit = authenticator.admit
        self._discovery_tools = discovery_tools
        self._tracker = tracker
        self._limits = limits
        self._background_tasks = BackgroundTasks()
        self._retries = Retries(parking)
        later = self._background_tasks.begin
        self._lists = ListHandler(listings, secured, discovery_tools.contexts, upstreams, info, later)
        self.tasks = TaskHandler(
            tracker,
            later,
            recording.end_later,
            offered=self._lists.offers_tasks,
            finish_of=finish_of,
            clock=clock,
        )
        self.sending = Dispatcher(upstreams, recording, states, self._retries, self.tasks.prepare, room, later, clock)
        self._pipeline = make_pipeline(self.sending.commit, self.sending.dispatch, self.sending.done)
        self.recovering = CallRecovery(self._pipeline, catalog, risk_of, recording, clock)
        self.sending.recovering = self.recovering
        self.sending.judged_again = self._pipeline.judged_again
        self.sending.trails = Trails(
            self.sending, recording, self._pipeline.policy_version, discovery_tools.contexts, limits, clock
        )
        resolving = NameResolution(catalog, access, upstreams)
        search_handler = ToolSearchHandler(discovery_tools, later)
        self.calls = CallHandler(self._pipeline, resolving, search_handler, recording, kept, info, later, clock)
        discovery_tools.may_call = self.calls.may_call
        self.subscriptions = SubscriptionHandler(
            change_notifier, audience, upstreams, resolving, self.calls.reach, self.tasks, later
        )
        self._methods: dict[str, Serve] = {
            **self.calls.methods,
            **self._lists.methods,
            **self.subscriptions.methods,
            **self.tasks.methods,
            **_spoken_as_mgp({**search_handler.methods, **access_methods.methods(later)}),
        }

    @property
    def open_calls(self) -> int:
        """Calls under way."""
        return self.sending.open_calls

    @property
    def held_calls(self) -> int:
        """Calls that wait for a check or an answer."""
        return self._pipeline.held

    @property
    def refusals(self) -> Refusals:
        """What was refused lately."""
        return self._pipeline.refusals

    # What a transport asks of a service

    def initialize(self, session: Session) -> bytes:
        """Open a session: nothing is started for it, and nothing waited for."""
        caller = cast(Caller, session.caller)
        if not caller.standing:
            session.caller = caller = self._authenticator.renewed(caller)
        session.dialect = speaking(session.dialect)
        session.state = SessionState()
        self.subscriptions.on_session_opened(session, caller)
        return self._lists.initialize_result(session.dialect, caller)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, or see to it that it will be answered."""
        request = exchange.request
        if exchange.dialect.mgp_offer is not None:
            exchange.dialect = speaking(exchange.dialect)
        try:
            serve = self._methods.get(request.method)
            if serve is None:
                raise _no_such_method(exchange)
            caller = cast(Caller, exchange.caller)  # admitted here, so one of ours
            self._check_shape(request.params, caller)
            if not caller.standing:
                exchange.caller = caller = self._authenticator.renewed(caller)
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
        """A client's notification."""
        if session is not None:
            self.subscriptions.on_notification(session, notification)

    def check_rate(self, caller: AnyCaller) -> None:
        """Whether a rate is used up that every request of the caller counts for."""
        self._discovery_tools.governed.check(cast(Caller, caller))

    def count_malformed(self, caller: AnyCaller) -> None:
        """A request that cannot be read uses up the caller's rates like one that can."""
        self._discovery_tools.governed.malformed(cast(Caller, caller))

    def on_session_closed(self, session: Session) -> None:
        """A session is over, and everything that was its own with it."""
        caller = cast(Caller, session.caller)
        if isinstance(session.state, SessionState):
            self._discovery_tools.forget(session, caller)
            self._tracker.leave(session, session.state)
        self.subscriptions.on_session_closed(session, caller)

    async def close(self) -> None:
        """End what the hub itself has under way."""
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
    """The methods of MGP, answered in its own terms whatever was agreed."""

    def spoken(serve: Serve) -> Serve:
        def as_mgp(exchange: Exchange, caller: Caller) -> None:
            exchange.dialect = for_mgp_method(exchange.dialect)
            serve(exchange, caller)

        return as_mgp

    return {name: spoken(serve) if name.startswith("mgp/") else serve for name, serve in methods.items()}
