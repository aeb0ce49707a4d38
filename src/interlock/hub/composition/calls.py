"""Builds the path of calls: gates, result processing, recording, tasks, and the service itself."""

from __future__ import annotations

import asyncio
import time

import msgspec

from interlock.config.settings import Config
from interlock.hub.audit.tracing.setup import open_spans
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.dispatch.dispatcher import CallQuota
from interlock.hub.calls.dispatch.result_pages import Pages
from interlock.hub.calls.dispatch.result_postprocessing import ResultPostprocessor
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.gates.validator_checks import Judging
from interlock.hub.calls.pipeline.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.calls.recording import Recording
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.target import Target
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.gate_chain import GateChain
from interlock.hub.composition.listings import ListingParts
from interlock.hub.foundation import Foundation
from interlock.hub.service import AccessServices, CallState, HubService, ListServices, ServiceLimits
from interlock.hub.sessions.session import Service
from interlock.hub.tasks.ledger import Ledger
from interlock.hub.tasks.reach import Reach
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mgp.permissions import Risk
from interlock.transports.call_parking import CallParking
from interlock.transports.sessions.registry import SessionLimits
from interlock.version import VERSION
from interlock.wire.limits import Limits


class CallParts:
    """Everything that a call passes."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        listings: ListingParts,
        upstreams: Upstreams,
        parking: CallParking,
        states: RequestStates,
        limits: Limits,
    ) -> None:
        self._foundation = foundation
        self._approvals = approvals
        self._states = states
        clock = asyncio.get_running_loop().time
        self.judging = Judging(foundation.resolver)
        self.noticed = ObservedFindings(
            foundation.log, lambda event, call, rules: self.recording.noticed(event, call, rules)
        )
        self.pages = Pages(time.monotonic)
        self.measuring = ResultTokens()
        self.gate_chain = GateChain(
            foundation, authentication, approvals, self.judging, self.measuring, self.pages, self.noticed
        )
        self.gate_chain.reload(foundation.config)
        self.spans = open_spans(foundation.config.hub.tracing)
        """The source of spans; None if tracing is off."""
        self.recording = self._recording(strict=foundation.config.hub.audit == "strict")
        listings.govern(self.recording)
        self.tasks = Tracker(
            Ledger(self._max_tasks, foundation.worker),
            upstreams,
            lambda: foundation.recorder,
            lambda: int(foundation.config.hub.limits.task_s * 1000),
            clock,
            Reach(listings.catalog, authentication.access),
            foundation.bus,
        )
        info = msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION})
        self.hub = HubService(
            AccessServices(authentication.authenticator, authentication.access, authentication.access_methods),
            ListServices(
                listings.catalog,
                listings.listings,
                listings.secured,
                listings.discovery_tools,
                listings.change_notifier,
                authentication.audience,
                self.pages,
                info,
            ),
            upstreams,
            CallState(states, parking, self.tasks, foundation.worker),
            self,
            self.recording,
            ServiceLimits(limits, _quota(foundation.config), _session_limits(foundation.config)),
            clock,
        )
        self.service: Service = self._traced(self.hub)
        """The service for transports: the hub, or with tracing the hub wrapped in `TracedService`."""

    def reload(self, config: Config) -> None:
        """Judge and record by this configuration."""
        self.gate_chain.reload(config)
        self._states.life_s = config.hub.limits.parked_s
        self.hub.sending.room = _quota(config)
        self.hub.clients.sessions.limits = _session_limits(config)
        self.recording.strict = config.hub.audit == "strict"

    async def close(self) -> None:
        self.judging.close()
        await self.measuring.close()

    def _recording(self, *, strict: bool) -> Recording:
        if self.spans is None:
            return Recording(strict=strict)
        from interlock.hub.audit.tracing.traced_service import TracedRecording

        return TracedRecording(self.spans, strict=strict)

    def _traced(self, hub: HubService) -> Service:
        if self.spans is None:
            return hub
        from interlock.hub.audit.tracing.traced_service import TracedService

        return TracedService(hub, self.spans)

    def finish_of(self, target: Target) -> ResultPostprocessor | None:
        """What is done to a target's results (`service.CallPolicy`)."""
        return self.gate_chain.finish_of(target)

    def risk_of(self, tool: Tool) -> Risk:
        """How risky a tool is (`service.CallPolicy`)."""
        return self._approvals.server_policies.risk_of(tool)

    def pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        """The pipeline that sends on what passes (`service.CallPolicy`)."""
        refused, would_refuse = self.recording.refused, self.noticed.call
        return Pipeline(
            lambda: self.gate_chain.plans,
            self._foundation.plan_generation,
            commit,
            dispatch,
            refused,
            would_refuse,
            release=release,
            approvals=self._approvals.call_approvals,
        )

    def _max_tasks(self) -> tuple[int, int]:
        limits = self._foundation.config.hub.limits
        return limits.tasks, limits.tasks_per_agent


def _session_limits(config: Config) -> SessionLimits:
    return SessionLimits(config.hub.limits.sessions, config.hub.limits.sessions_per_agent)


def _quota(config: Config) -> CallQuota:
    limits = config.hub.limits
    return CallQuota(limits.pending, limits.pending_per_server, limits.pending_per_agent)
