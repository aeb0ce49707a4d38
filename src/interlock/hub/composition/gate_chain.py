"""The gates of the current configuration, in the order in which a call passes them. A new gate is one line here."""

from __future__ import annotations

import asyncio

from interlock.config.settings import Config
from interlock.hub.calls.dispatch.result_pages import Pages
from interlock.hub.calls.dispatch.result_postprocessing import ResultPostprocessor, postprocessor_for
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.gates.access import AccessGate
from interlock.hub.calls.gates.confirm import ConfirmGate
from interlock.hub.calls.gates.headers import HeadersGate
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.calls.gates.permissions import PermissionsGate
from interlock.hub.calls.gates.risk import RiskGate
from interlock.hub.calls.gates.schema import SchemaGate
from interlock.hub.calls.gates.validator_checks import Judging
from interlock.hub.calls.gates.validators import ValidatorsGate
from interlock.hub.calls.plan import Plans
from interlock.hub.calls.timeouts import CallTimeouts, timeouts_for
from interlock.hub.catalog.target import Target
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.foundation import Foundation


class GateChain:
    """Makes the plans of calls. `reload` applies a configuration."""

    plans: Plans

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        judging: Judging,
        measuring: ResultTokens,
        pages: Pages,
        noticed: ObservedFindings,
    ) -> None:
        self._log = foundation.log
        self._authentication = authentication
        self._approvals = approvals
        self._judging = judging
        self._measuring = measuring
        self._pages = pages
        self._noticed = noticed
        self._clock = asyncio.get_running_loop().time
        self._config: Config
        self._postprocessors: dict[str, ResultPostprocessor | None] = {}

    def reload(self, config: Config) -> None:
        """Judge by this configuration."""
        self._config = config
        mode, policies = config.hub.mode, self._approvals.server_policies
        access, rates = self._authentication.access, self._authentication.rates
        gates = (
            AccessGate(access, self._clock, self._authentication.insufficient_scope),
            PermissionsGate(policies.permissions, self._clock),
            HeadersGate(),
            SchemaGate(),
            ValidatorsGate(config.servers, mode, self._judging, self._approvals.is_attended),
            RiskGate(mode, self._log, policies.trust_of, policies.permissions.needs),
            ConfirmGate(config.agents, mode, self._log),
        )
        self._postprocessors = {
            name: postprocessor_for(server, self._pages, self._judging, self._measuring, self._noticed.result)
            for name, server in config.servers.items()
        }
        self.plans = Plans(gates, self._timeouts_of, self.finish_of, rates.of)

    def finish_of(self, target: Target) -> ResultPostprocessor | None:
        """The postprocessor of a target's results."""
        return self._postprocessors.get(target.server) if target.kind == "tool" else None

    def _timeouts_of(self, target: Target) -> CallTimeouts:
        tool = target.name if target.kind == "tool" else ""
        return timeouts_for(self._config.hub.timeouts, self._config.servers.get(target.server), tool)
