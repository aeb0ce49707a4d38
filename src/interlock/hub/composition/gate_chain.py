"""The gates of the current configuration, in the order in which a call passes them. A new gate is one line here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from interlock.config.settings import Config
from interlock.hub.audit.entries import NOT_JUDGED, TargetJudgement
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Caller, ResultProcessor
from interlock.hub.calls.dispatch.result_pages import ResultPages
from interlock.hub.calls.dispatch.result_postprocessing import postprocessor_for
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.gates.access import AccessGate
from interlock.hub.calls.gates.audience import AudienceGate
from interlock.hub.calls.gates.confirm import ConfirmGate
from interlock.hub.calls.gates.headers import HeadersGate
from interlock.hub.calls.gates.masking import MaskingGate
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.gates.permissions import PermissionsGate
from interlock.hub.calls.gates.requests import RequestsGate
from interlock.hub.calls.gates.risk import RiskGate
from interlock.hub.calls.gates.schema import SchemaGate
from interlock.hub.calls.gates.taint import TaintGate, TaintPolicy
from interlock.hub.calls.gates.validators import ValidatorsGate
from interlock.hub.calls.plan import Gate
from interlock.hub.calls.timeouts import CallTimeouts, timeouts_for
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.catalog.unknown_names import unknown
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.live import LiveParts
from interlock.hub.foundation import Foundation
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.rate_meter import Meter
from interlock.hub.sessions.session import Exchange, SessionCaller
from interlock.wire.errors import Fault


class GateChain:
    """The gates and settings by which the pipeline plans calls. `reload` applies a configuration."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        judging: JudgingThreads,
        tokens: ResultTokens,
        pages: ResultPages,
        findings: ObservedFindings,
        live: LiveParts,
    ) -> None:
        self._live = live
        self._log = foundation.log
        self._authentication = authentication
        self._approvals = approvals
        self._judging = judging
        self._tokens = tokens
        self._pages = pages
        self._findings = findings
        self._clock = asyncio.get_running_loop().time
        self.reload(foundation.config)

    def reload(self, config: Config) -> None:
        """Judge by this configuration."""
        self._config = config
        mode, policies = config.hub.mode, self._approvals.server_policies
        access = self._authentication.access
        self._validators = ValidatorsGate(config.servers, mode, self._judging, self._approvals.asks_about)
        self._taint = TaintPolicy(config.profiles, self._approvals.taints, policies.trust_of, policies.risk_of)
        self.gates: tuple[Gate, ...] = (
            AccessGate(access, self._clock, self._authentication.insufficient_scope),
            RequestsGate(config.servers),
            AudienceGate(self._authentication.unknown_tools),
            PermissionsGate(policies.permissions, self._clock),
            HeadersGate(),
            MaskingGate(config.servers, self._judging),
            SchemaGate(config.servers),
            self._live.scope_gate(),
            self._live.client_scopes_gate(),
            self._live.state_gate(),
            self._validators,
            RiskGate(policies.risk, self._log),
            ConfirmGate(config.agents, mode, self._log),
            self._live.gate(policies.risk_of),
            TaintGate(self._taint, mode, self._log),
        )
        self._processors = {
            name: postprocessor_for(server, self._pages, self._judging, self._tokens, self._findings)
            for name, server in config.servers.items()
        }
        masked = [(name, server) for name, server in config.servers.items() if server.scan_results == "mask"]
        self._maskers = {
            name: postprocessor_for(
                replace(server, max_result_tokens=None), self._pages, self._judging, self._tokens, self._findings
            )
            for name, server in masked
        }

    def unknown(self, caller: Caller, kind: TargetKind, name: str) -> Fault:
        """The error for a target that the caller may not see."""
        return self._authentication.unknown_tools.fault(caller, name) if kind == "tool" else unknown(kind, name)

    def meters_of(self, principal: Principal, target: Target) -> tuple[Meter, ...]:
        """The rates that a principal's calls of a target count for."""
        return self._authentication.rates.of(principal, target)

    def judged_of(self, target: Target) -> TargetJudgement:
        """Risk and validators of a target, for the audit log."""
        if target.tool is None:
            return NOT_JUDGED
        risk = self._approvals.server_policies.risk_of(target.tool)
        return TargetJudgement(risk.word, self._validators.applied(target))

    def processor_of(self, caller: SessionCaller, target: Target) -> ResultProcessor | None:
        """The processor of a target's results: what its server's settings ask for, events, and taints of the caller."""
        server = target.server
        inner: ResultProcessor | None = self._maskers.get(server)
        if target.kind == "tool":
            inner = self._live.with_events(caller.principal, server, self._processors.get(server), self._judging)
        return self._taint.processor(caller, target, inner)

    def is_tainted(self, principal: Principal) -> bool:
        """Whether a principal was given untrusted text, where any profile asks because of that."""
        return (
            self._taint.on and self._config.hub.mode != "observe" and self._taint.taints.of(principal.name) is not None
        )

    def note_text(
        self,
        caller: SessionCaller,
        server: str,
        method: str,
        then: Callable[[], None] | None = None,
        request: Exchange | Call | None = None,
    ) -> None:
        """A client is about to be given text of a server that answers no call. `then` follows once that is stored."""
        self._taint.note_text(caller, server, method, then, request)

    async def note_delivery(
        self, principal: Principal, servers: Iterable[str], method: str, profile: str | None = None
    ) -> None:
        """A principal is about to be given text of servers that answers no call: in an inference, or as an event."""
        await self._taint.note_delivery(principal, servers, method, profile)

    def timeouts_of(self, target: Target) -> CallTimeouts:
        """The timeouts of a target."""
        tool = target.name if target.kind == "tool" else ""
        return timeouts_for(self._config.hub.timeouts, self._config.servers.get(target.server), tool)
