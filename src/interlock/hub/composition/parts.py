"""The parts of a hub, each built once, from those before it. Each gets everything that it needs when it is made.

Every step builds one group of parts, and names those of them that other layers use.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from interlock.config.settings import Config, ServerSettings
from interlock.hub.audit.server_claims import ServerClaims
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.calls import CallParts
from interlock.hub.composition.handlers import HandlerParts
from interlock.hub.composition.list_notifications import ListNotifications
from interlock.hub.composition.listings import ListingParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.composition.logins import LoginParts
from interlock.hub.composition.registration import RegistrationParts
from interlock.hub.composition.service import build_service, traced
from interlock.hub.composition.tool_search import ToolSearchParts
from interlock.hub.composition.upstream_router import UpstreamRouter
from interlock.hub.foundation import Foundation
from interlock.hub.live.hook_requirements import RequiredHooks
from interlock.hub.live.hooks import InferenceHooks
from interlock.hub.upstreams.dialer import Dialer
from interlock.hub.upstreams.health_monitor import HealthMonitor
from interlock.hub.upstreams.starts import ADDRESSES, PROCESSES, Starts
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.transports.requests.call_parking import CallParking, ParkingLimits
from interlock.wire.limits import Limits


class HubParts:
    """The parts of one hub. Those that other layers use are attributes here."""

    def __init__(self, config: Config, home: Path, parking: ParkingLimits | None) -> None:
        self.listen = ""
        """The HTTP address, once it is known."""
        self.limits = message_limits(config)
        self._foundation = Foundation(config, home)
        self._states = RequestStates(secrets.token_bytes(32))
        self.parking = CallParking(parking or parking_limits(config), secrets.token_bytes(32), self._foundation.worker)
        self.process_starts, self.address_starts = Starts(PROCESSES), Starts(ADDRESSES)
        self.upstreams = Upstreams(self._upstream)
        self.catalog = Catalog(self._foundation.plan_generation.advance)
        self._name_foundation()
        self._build_authentication()
        self._build_live()
        self._build_approvals()
        self._build_calls()
        self._build_registration()
        self._build_listings()
        self._build_tool_search()
        self._build_hooks()
        self._build_service()
        self._build_servers()

    def use_address(self, listen: str) -> None:
        """Name this HTTP address in links, tickets and challenges."""
        self.listen = listen

    def _name_foundation(self) -> None:
        foundation = self._foundation
        self.home = foundation.home
        self.bus = foundation.bus
        self.counts = foundation.counts
        self.logs = foundation.logs
        self.policy_version = foundation.policy_version
        self.plan_generation = foundation.plan_generation
        self.journal = foundation.journal

    def _build_authentication(self) -> None:
        """Who calls, and what that caller may do."""
        parts = self._authentication = AuthenticationParts(self._foundation, self.catalog, lambda: self.listen)
        self.keys = parts.keys
        self.rates = parts.rates
        self.grants = parts.grants
        self.access = parts.access
        self.access_methods = parts.access_methods
        self.authenticator = parts.authenticator
        self.audit_subscribers = parts.audit_subscribers

    def _build_live(self) -> None:
        """MCP Live: everything that servers may start by themselves."""
        self.live = LiveParts(self._foundation, self._authentication)

    def _build_approvals(self) -> None:
        """Decisions of people, and policies of servers."""
        parts = self._approvals = ApprovalParts(
            self._foundation,
            self._authentication,
            self.upstreams,
            self.parking,
            self._states,
            judge=lambda offer: self._listings.quarantine.take(offer),
            show=lambda offer: self._listings.show(offer),
        )
        self.inbox, self.passphrase = parts.inbox, parts.passphrase
        self.notifiers = parts.notifiers
        self.taints = parts.taints
        self.server_policies = parts.server_policies
        self.permissions = parts.permissions

    def _build_calls(self) -> None:
        """The way of a call: the gates (`gate_chain.py`), the pipeline, the dispatcher, and tasks."""
        parts = self._calls = CallParts(
            self._foundation,
            self._authentication,
            self._approvals,
            self.catalog,
            self.upstreams,
            self.parking,
            self._states,
            self.live,
        )
        self.live.texts.judge_with(parts.judging, parts.gate_chain)
        self.gate_chain = parts.gate_chain
        self.judging = parts.judging
        self.findings = parts.findings
        self.recording = parts.recording
        self.tasks = parts.tracker
        self.spans = parts.spans

    def _build_registration(self) -> None:
        """Servers that are registered while the hub runs."""
        parts = self._registration = RegistrationParts(
            self._foundation, self._authentication, self._approvals, self.catalog, self.upstreams
        )
        self.registrations = parts.registrations
        self.discovery = parts.methods

    def _build_listings(self) -> None:
        """The lists for clients, and the notifiers of their changes."""
        parts = self._listings = ListingParts(
            self._foundation, self._authentication, self._approvals, self._calls, self.catalog, self.live
        )
        self.tokens = parts.tokens
        self.listings = parts.listings
        self.change_notifier = parts.change_notifier
        self.server_event_subscriptions = parts.server_event_subscriptions
        self.event_subscriptions = parts.event_subscriptions

    def _build_tool_search(self) -> None:
        parts = self._tool_search = ToolSearchParts(
            self._foundation,
            self._authentication,
            self._approvals,
            self._calls,
            self._listings,
            self.registrations,
        )
        self.search = parts.search
        self.discovery_tools = parts.discovery_tools
        self._list_notifications = ListNotifications(self.bus, self.change_notifier, parts)

    def _build_hooks(self) -> None:
        """The hooks of servers around an inference."""
        live, foundation = self.live, self._foundation
        required = RequiredHooks(
            live.connections, live.features, self.upstreams, self.access, lambda: foundation.config
        )
        self.inference_hooks = InferenceHooks(
            live.connections,
            live.refusals,
            self.access,
            self.judging,
            self.gate_chain,
            self.journal,
            lambda: foundation.config,
            required,
        )

    def _build_service(self) -> None:
        """The handlers of all methods (`handlers.py`), and the service that transports hand requests to."""
        handlers = HandlerParts(
            self._foundation,
            self._authentication,
            self._calls,
            self._listings,
            self._tool_search,
            self._registration,
            self.live,
            self.inference_hooks,
        )
        self.readiness = handlers.readiness
        self.hub = build_service(
            self._foundation, self._authentication, self._calls, self._tool_search, handlers, self.limits
        )
        self.service = traced(self.hub, self.spans)
        """The service for transports: the hub, with tracing if it is on."""

    def _build_servers(self) -> None:
        """The parts that connections to servers use: logins, claims, the router of their messages."""
        foundation = self._foundation
        self.login_parts = LoginParts(foundation, self.keys, self.upstreams, lambda: self.listen)
        self.logins = self.login_parts.logins
        self.claims = ServerClaims(lambda: foundation.recorder, asyncio.get_running_loop().time, foundation.log)
        self._upstream_router = UpstreamRouter(
            self._approvals,
            self.change_notifier,
            self._calls,
            self.journal,
            self.claims,
            self.bus,
            self.live,
            self.server_event_subscriptions,
        )
        self.health_monitor = HealthMonitor(
            self.upstreams, lambda: foundation.config.hub.timeouts.health_s, self.bus, self.logs
        )

    def _upstream(self, id: str, settings: ServerSettings) -> Upstream:
        starts = self.process_starts if settings.url is None else self.address_starts
        dialer = Dialer(id, settings, self.limits, self.logins, self.home)
        return Upstream(id, settings, self._foundation.config.hub, dialer, starts, self.logs, self._upstream_router)


def parking_limits(config: Config) -> ParkingLimits:
    """The bounds of parked calls that a configuration sets."""
    limits = config.hub.limits
    return ParkingLimits(
        parked=limits.parked,
        per_principal=limits.parked_per_agent,
        seconds=limits.parked_s,
        held_bytes=limits.parked_bytes,
    )


def message_limits(config: Config) -> Limits:
    """The bounds of messages and of pending requests that a configuration sets."""
    limits = config.hub.limits
    return Limits(message_bytes=limits.message_bytes, depth=limits.depth, pending=limits.pending_per_server)
