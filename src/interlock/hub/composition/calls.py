"""Builds the path of calls: the gates, the recording of calls, tasks, the dispatcher and the pipeline."""

from __future__ import annotations

import time

from interlock.config.settings import Config
from interlock.hub.audit.tracing.setup import open_spans
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import Bridges, Retries
from interlock.hub.calls.dispatch.callbacks import ServerCallbacks
from interlock.hub.calls.dispatch.dispatcher import CallQuota, Dispatcher
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.result_pages import ResultPages
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.name_resolution import NameResolution
from interlock.hub.calls.pipeline.judged_sends import JudgedSends
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.recording import Recording
from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.gate_chain import GateChain
from interlock.hub.composition.live import LiveParts
from interlock.hub.foundation import Foundation
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.ledger import TaskLedger
from interlock.hub.tasks.possible_tasks import PossibleTasks
from interlock.hub.tasks.status_texts import StatusTexts
from interlock.hub.tasks.task_access import TaskAccess
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.transports.requests.call_parking import CallParking


class CallParts:
    """Everything that a call passes."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        catalog: Catalog,
        upstreams: Upstreams,
        parking: CallParking,
        states: RequestStates,
        live: LiveParts,
    ) -> None:
        self._foundation = foundation
        self._states = states
        self._catalog = catalog
        self.upstreams = upstreams
        config = foundation.config
        self.background = BackgroundTasks()
        self.judging = JudgingThreads(foundation.resolver)
        self.spans = open_spans(config.hub.tracing)
        """The source of spans; None if tracing is off."""
        self.recording = self._recording(strict=config.hub.audit == "strict")
        self.findings = ObservedFindings(foundation.logs, self.recording)
        self.pages = ResultPages(time.monotonic)
        self.result_tokens = ResultTokens()
        self.gate_chain = GateChain(
            foundation, authentication, approvals, self.judging, self.result_tokens, self.pages, self.findings, live
        )
        self.tracker = self._tracker(authentication)
        self.task_handler = TaskHandler(self.tracker, upstreams, self.gate_chain, self.background)
        self.retries = Retries(parking)
        self.callbacks = ServerCallbacks(approvals.inbox, approvals.attended_by, self.background)
        self.dispatcher = self._dispatcher(approvals)
        self.names = NameResolution(catalog, authentication.access, upstreams, authentication.unknown_tools)
        self.pipeline = Pipeline(
            self.names,
            self.gate_chain,
            foundation.plan_generation,
            approvals.call_approvals,
            self.dispatcher,
            self.recording,
            self.findings,
        )
        self.judged_sends = JudgedSends(self.pipeline, approvals.call_approvals, self.recording)

    def _tracker(self, authentication: AuthenticationParts) -> Tracker:
        return Tracker(
            TaskLedger(self._max_tasks, self._foundation.worker),
            self.upstreams,
            self.recording,
            self._max_task_ms,
            TaskAccess(self._catalog, authentication.access),
            self._foundation.bus,
            StatusTexts(self.gate_chain),
        )

    def _dispatcher(self, approvals: ApprovalParts) -> Dispatcher:
        return Dispatcher(
            self.upstreams,
            self.recording,
            Bridges(self._states, self.retries),
            PossibleTasks(self.tracker, self.upstreams, self.recording, self.background),
            CallRecovery(self._catalog, approvals.server_policies, self.recording),
            self.callbacks,
            _quota(self._foundation.config),
            self.background,
        )

    def reload(self, config: Config) -> None:
        """Judge and record by this configuration."""
        self.gate_chain.reload(config)
        self._states.keep_for(config.hub.limits.parked_s)
        self.dispatcher.bound(_quota(config))
        self.recording.use_mode(strict=config.hub.audit == "strict")

    async def close(self) -> None:
        self.judging.close()
        await self.result_tokens.close()

    def _recording(self, *, strict: bool) -> Recording:
        if self.spans is None:
            return Recording(self._foundation, strict=strict)
        from interlock.hub.audit.tracing.traced_service import TracedRecording

        return TracedRecording(self.spans, self._foundation, strict=strict)

    def _max_tasks(self) -> tuple[int, int]:
        limits = self._foundation.config.hub.limits
        return limits.tasks, limits.tasks_per_agent

    def _max_task_ms(self) -> int:
        return int(self._foundation.config.hub.limits.task_s * 1000)


def _quota(config: Config) -> CallQuota:
    limits = config.hub.limits
    return CallQuota(limits.pending, limits.pending_per_server, limits.pending_per_agent, limits.requests_per_server)
