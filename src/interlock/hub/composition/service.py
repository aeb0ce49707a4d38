"""Builds the service for transports: sessions around the handlers of all methods, and tracing where it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.config.settings import Config
from interlock.hub.calls.call import Caller
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.handlers import HandlerParts
from interlock.hub.composition.tool_search import ToolSearchParts
from interlock.hub.foundation import Foundation
from interlock.hub.service import HubService, SessionServices
from interlock.hub.sessions.session import Service
from interlock.transports.sessions.registry import SessionLimits
from interlock.wire.limits import Limits

if TYPE_CHECKING:
    from interlock.hub.audit.tracing.spans import Spans  # imports an optional dependency


def build_service(
    foundation: Foundation,
    authentication: AuthenticationParts,
    calls: CallParts,
    tool_search: ToolSearchParts,
    handlers: HandlerParts,
    limits: Limits,
) -> HubService:
    """The hub as a service."""
    sessions = SessionServices(
        tool_search.discovery_tools,
        tool_search.recorded_requests,
        calls.tracker,
        calls.retries,
        foundation.worker,
        session_limits(foundation.config),
    )
    authenticator = authentication.authenticator
    return HubService(authenticator, calls.pipeline, handlers.methods, sessions, limits, calls.background)


def session_limits(config: Config) -> SessionLimits:
    """How many sessions a configuration allows."""
    return SessionLimits(config.hub.limits.sessions, config.hub.limits.sessions_per_agent)


def traced(hub: HubService, spans: Spans | None) -> Service[Caller]:
    """The service with a span for each call, if tracing is on."""
    if spans is None:
        return hub
    from interlock.hub.audit.tracing.traced_service import TracedService

    return TracedService(hub, spans)
