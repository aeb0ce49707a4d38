"""Builds the handlers of all methods, one for each family. `MethodHandlers` in `hub/service.py` has their methods."""

from __future__ import annotations

import msgspec

from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.listings import ListingParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.composition.registration import RegistrationParts
from interlock.hub.composition.tool_search import ToolSearchParts
from interlock.hub.foundation import Foundation
from interlock.hub.handlers.callbacks import CallbackHandler
from interlock.hub.handlers.calls import CallHandler
from interlock.hub.handlers.client_hooks import ClientHookHandler
from interlock.hub.handlers.event_methods import EventMethods
from interlock.hub.handlers.extension_notifiers import ExtensionNotifiers
from interlock.hub.handlers.health import HealthHandler
from interlock.hub.handlers.host_methods import HostMethods
from interlock.hub.handlers.lifecycle import LifecycleHandler
from interlock.hub.handlers.lists import ListHandler
from interlock.hub.handlers.mgp_operations import MgpOperationsHandler
from interlock.hub.handlers.own_resources import OwnResources
from interlock.hub.handlers.own_tools import OwnToolCalls
from interlock.hub.handlers.rooms import RoomHandler
from interlock.hub.handlers.streams import StreamHandler
from interlock.hub.handlers.subscriptions import SubscriptionHandler
from interlock.hub.live.connections import OwnConnections
from interlock.hub.live.events.delivery_tools import LiveTools
from interlock.hub.live.hooks import InferenceHooks
from interlock.hub.readiness import Readiness
from interlock.hub.service import MethodHandlers
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.version import VERSION

SERVER_INFO = msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION})


class HandlerParts:
    """The handlers. Each method here builds one family that needs several parts."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        calls: CallParts,
        listings: ListingParts,
        tool_search: ToolSearchParts,
        registration: RegistrationParts,
        live: LiveParts,
        hooks: InferenceHooks,
    ) -> None:
        self._calls = calls
        self._listings = listings
        self._tool_search = tool_search
        self._live = live
        access, journal = authentication.access, foundation.journal
        background, requests = calls.background, tool_search.recorded_requests
        self.readiness = Readiness(foundation, access)
        search = ToolSearchHandler(tool_search.discovery_tools, requests, background)
        rooms = RoomHandler(calls.judging, live.touches, calls.gate_chain)
        live_tools = LiveTools(live.offers, live.deliveries, requests, calls.judging, background)
        own_tools = OwnToolCalls(requests, background, search, live_tools, rooms)
        own_resources = OwnResources(rooms, live_tools)
        client_hooks = ClientHookHandler(requests, background)
        self.methods = MethodHandlers(
            calls=CallHandler(
                calls.pipeline, search, own_tools, own_resources, access, calls.pages, SERVER_INFO, background
            ),
            lists=self._lists(),
            subscriptions=self._subscriptions(authentication, own_resources),
            rooms=rooms,
            tasks=calls.task_handler,
            search=search,
            operations=MgpOperationsHandler(authentication.access_methods, registration.methods, journal, background),
            health=HealthHandler(self.readiness, listings.catalog, access, calls.upstreams, background),
            streams=StreamHandler(calls.dispatcher.open_requests, background),
            callbacks=CallbackHandler(calls.callbacks.open),
            lifecycle=LifecycleHandler(self.readiness, access, calls.upstreams, calls.dispatcher, journal, background),
            events=EventMethods(listings.event_subscriptions, background),
            hosts=self._hosts(hooks, client_hooks),
            client_hooks=client_hooks,
        )

    def _lists(self) -> ListHandler:
        return ListHandler(
            self._listings.listings,
            self._listings.forms,
            self._tool_search.contexts,
            self._listings.starting_servers,
            self._calls.upstreams,
            SERVER_INFO,
            self._calls.background,
            self._live.offers,
        )

    def _subscriptions(self, authentication: AuthenticationParts, own_resources: OwnResources) -> SubscriptionHandler:
        notifiers = ExtensionNotifiers(
            authentication.audit_subscribers,
            self._listings.lifecycle_notifier,
            self._listings.event_subscriptions,
            self._live.hosts,
        )
        return SubscriptionHandler(
            self._listings.change_notifier,
            notifiers,
            self._calls.upstreams,
            self._calls.names,
            self._calls.pipeline,
            self._calls.task_handler,
            own_resources,
            self._calls.background,
        )

    def _hosts(self, hooks: InferenceHooks, client_hooks: ClientHookHandler) -> HostMethods:
        return HostMethods(
            self._live.hosts,
            hooks,
            client_hooks,
            self._tool_search.recorded_requests,
            self._calls.background,
            OwnConnections(self._live.connections, self._calls.upstreams),
            self._calls.judged_sends,
            self._live.texts,
        )
