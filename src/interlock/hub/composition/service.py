"""Builds the service for transports: the handlers of all methods, and tracing where it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from interlock.config.settings import Config
from interlock.hub.calls.call import Caller
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.listings import ListingParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.foundation import Foundation
from interlock.hub.handlers.callbacks import CallbackHandler
from interlock.hub.handlers.calls import CallHandler
from interlock.hub.handlers.client_hooks import ClientHookHandler
from interlock.hub.handlers.discovery_methods import DiscoveryMethods
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
from interlock.hub.service import HubService, MethodHandlers, SessionServices
from interlock.hub.sessions.session import Service
from interlock.hub.tool_search.handler import ToolSearchHandler
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.transports.sessions.registry import SessionLimits
from interlock.version import VERSION
from interlock.wire.limits import Limits

if TYPE_CHECKING:
    from interlock.hub.audit.tracing.spans import Spans  # imports an optional dependency


def build_service(
    foundation: Foundation,
    authentication: AuthenticationParts,
    calls: CallParts,
    listings: ListingParts,
    upstreams: Upstreams,
    limits: Limits,
    readiness: Readiness,
    discovery: DiscoveryMethods,
    live: LiveParts,
    hooks: InferenceHooks,
) -> HubService:
    """The hub as a service."""
    info = msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION})
    background, discovery_tools = calls.background, listings.discovery_tools
    search = ToolSearchHandler(discovery_tools, listings.recorded_requests, background)
    lists = ListHandler(
        listings.listings,
        listings.forms,
        discovery_tools.contexts,
        listings.starting_servers,
        upstreams,
        info,
        background,
        live.offers,
    )
    rooms = RoomHandler(calls.judging, live.touches, calls.gate_chain)
    live_tools = LiveTools(live.offers, live.deliveries, listings.recorded_requests, calls.judging, background)
    own_tools = OwnToolCalls(listings.recorded_requests, background, search, live_tools, rooms)
    own_resources = OwnResources(rooms, live_tools)
    subscriptions = SubscriptionHandler(
        listings.change_notifier,
        ExtensionNotifiers(
            authentication.audit_subscribers, listings.lifecycle_notifier, listings.event_subscriptions, live.hosts
        ),
        upstreams,
        calls.names,
        calls.pipeline,
        calls.task_handler,
        own_resources,
        background,
    )
    client_hooks = ClientHookHandler(listings.recorded_requests, background)
    handlers = MethodHandlers(
        CallHandler(
            calls.pipeline, search, own_tools, own_resources, authentication.access, calls.pages, info, background
        ),
        lists,
        subscriptions,
        rooms,
        calls.task_handler,
        search,
        MgpOperationsHandler(authentication.access_methods, discovery, foundation.journal, background),
        HealthHandler(readiness, listings.catalog, authentication.access, upstreams, background),
        StreamHandler(calls.dispatcher.open_requests, background),
        CallbackHandler(calls.callbacks.open),
        LifecycleHandler(readiness, authentication.access, upstreams, calls.dispatcher, foundation.journal, background),
        EventMethods(listings.event_subscriptions, background),
        HostMethods(
            live.hosts,
            hooks,
            client_hooks,
            listings.recorded_requests,
            background,
            OwnConnections(live.connections, upstreams),
            calls.judged_sends,
            live.texts,
        ),
        client_hooks,
    )
    sessions = SessionServices(
        discovery_tools,
        listings.recorded_requests,
        calls.tracker,
        calls.retries,
        foundation.worker,
        session_limits(foundation.config),
    )
    return HubService(authentication.authenticator, calls.pipeline, handlers, sessions, limits, background)


def session_limits(config: Config) -> SessionLimits:
    """How many sessions a configuration allows."""
    return SessionLimits(config.hub.limits.sessions, config.hub.limits.sessions_per_agent)


def traced(hub: HubService, spans: Spans | None) -> Service[Caller]:
    """The service with a span for each call, if tracing is on."""
    if spans is None:
        return hub
    from interlock.hub.audit.tracing.traced_service import TracedService

    return TracedService(hub, spans)
