"""How calls go through: what judges them, what is done to results, tasks, the record of calls, and the hub itself."""

from __future__ import annotations

import asyncio
import time

import msgspec

from interlock.config.settings import Config
from interlock.hub.audit.tracing.setup import open_spans
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.dispatch.dispatcher import CallQuota
from interlock.hub.calls.dispatch.result_pages import Pages
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.gates.validator_checks import Judging
from interlock.hub.calls.pipeline.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.calls.recording import Recording
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.gate_chain import GateChain
from interlock.hub.composition.listings import ListingParts
from interlock.hub.foundation import Foundation
from interlock.hub.service import HubService
from interlock.hub.tasks.ledger import Ledger
from interlock.hub.tasks.reach import Reach
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.transports.call_parking import CallParking
from interlock.transports.exchange import Service
from interlock.version import VERSION
from interlock.wire.limits import Limits


class CallParts:
    """Everything that a call runs through."""

    def __init__(
        self,
        foundation: Foundation,
        admitting: AuthenticationParts,
        deciding: ApprovalParts,
        showing: ListingParts,
        upstreams: Upstreams,
        parking: CallParking,
        states: RequestStates,
        limits: Limits,
    ) -> None:
        self._foundation = foundation
        self._deciding = deciding
        self._states = states
        clock = asyncio.get_running_loop().time
        self.judging = Judging(foundation.resolver)
        self.noticed = ObservedFindings(
            foundation.note, lambda event, call, rules: self.recording.noticed(event, call, rules)
        )
        self.pages = Pages(time.monotonic)
        self.measuring = ResultTokens()
        self.gate_chain = GateChain(
            access=admitting.access,
            server_policies=deciding.server_policies,
            rates=admitting.rates,
            judging=self.judging,
            measuring=self.measuring,
            pages=self.pages,
            noticed=self.noticed,
            short_of_scope=admitting.short_of_scope,
            is_attended=deciding.is_attended,
            log=foundation.note,
            clock=clock,
        )
        self.gate_chain.renew(foundation.config)
        self.spans = open_spans(foundation.config.hub.tracing)
        """Spans of calls, where the operator wants them."""
        self.recording = self._recording(strict=foundation.config.hub.audit == "strict")
        showing.govern(self.recording)
        self.tasks = Tracker(
            Ledger(self._most_tasks),
            upstreams,
            lambda: foundation.recorder,
            lambda: int(foundation.config.hub.limits.task_s * 1000),
            clock,
            Reach(showing.catalog, admitting.access),
        )
        self.hub = HubService(
            authenticator=admitting.authenticator,
            catalog=showing.catalog,
            listings=showing.listings,
            secured=showing.secured,
            discovery_tools=showing.discovery_tools,
            access=admitting.access,
            access_methods=admitting.access_methods,
            upstreams=upstreams,
            change_notifier=showing.change_notifier,
            audience=admitting.audience,
            make_pipeline=self._pipeline,
            states=states,
            recording=self.recording,
            kept=self.pages,
            parking=parking,
            tracker=self.tasks,
            finish_of=self.gate_chain.finish_of,
            limits=limits,
            info=msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION}),
            room=_room(foundation.config),
            risk_of=deciding.server_policies.risk_of,
            clock=clock,
        )
        self.service: Service = self._traced(self.hub)
        """What transports hand requests to: the hub, or where calls are traced what stands before it."""

    def renew(self, config: Config) -> None:
        """Judge and record by this configuration from now on."""
        self._states.life_s = config.hub.limits.parked_s
        self.hub.sending.room = _room(config)
        self.recording.strict = config.hub.audit == "strict"

    async def close(self) -> None:
        """Nothing is judged or measured any more."""
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

    def _pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        refused, would_refuse = self.recording.refused, self.noticed.call
        return Pipeline(
            lambda: self.gate_chain.plans,
            self._foundation.policy_version,
            commit,
            dispatch,
            refused,
            would_refuse,
            release=release,
            desk=self._deciding.desk,
        )

    def _most_tasks(self) -> tuple[int, int]:
        limits = self._foundation.config.hub.limits
        return limits.tasks, limits.tasks_per_agent


def _room(config: Config) -> CallQuota:
    limits = config.hub.limits
    return CallQuota(limits.pending, limits.pending_per_server, limits.pending_per_agent)
