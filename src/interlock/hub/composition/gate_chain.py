"""The gates of the configuration in force, in the order in which a call meets them: a new rule is a line here."""

from __future__ import annotations

from collections.abc import Callable

from interlock.config.settings import Config
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
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
from interlock.hub.calls.rates import Rates
from interlock.hub.calls.timeouts import CallTimeouts, timeouts_for
from interlock.hub.catalog.target import Target
from interlock.hub.composition.server_policies import ServerPolicies
from interlock.wire.errors import Fault


class GateChain:
    """Makes the plans of calls. `renew` with every configuration."""

    plans: Plans

    def __init__(
        self,
        *,
        access: Access,
        server_policies: ServerPolicies,
        rates: Rates,
        judging: Judging,
        measuring: ResultTokens,
        pages: Pages,
        noticed: ObservedFindings,
        short_of_scope: Callable[[Principal, str, str], Fault | None],
        is_attended: Callable[[Principal], bool],
        log: Callable[[str, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._access = access
        self._server_policies = server_policies
        self._rates = rates
        self._judging = judging
        self._measuring = measuring
        self._pages = pages
        self._noticed = noticed
        self._short_of_scope = short_of_scope
        self._is_attended = is_attended
        self._log = log
        self._clock = clock
        self._config: Config
        self._finishes: dict[str, ResultPostprocessor | None] = {}

    def renew(self, config: Config) -> None:
        """Judge by this configuration from now on."""
        self._config = config
        mode, permissions = config.hub.mode, self._server_policies.permissions
        gates = (
            AccessGate(self._access, self._clock, self._short_of_scope),
            PermissionsGate(permissions, self._clock),
            HeadersGate(),
            SchemaGate(),
            ValidatorsGate(config.servers, mode, self._judging, self._is_attended),
            RiskGate(mode, self._log, self._server_policies.trust_of, permissions.needs),
            ConfirmGate(config.agents, mode, self._log),
        )
        self._finishes = {
            name: postprocessor_for(server, self._pages, self._judging, self._measuring, self._noticed.result)
            for name, server in config.servers.items()
        }
        self.plans = Plans(gates, self._timeouts_of, self.finish_of, self._rates.of)

    def finish_of(self, target: Target) -> ResultPostprocessor | None:
        """What is done to the results of a target."""
        return self._finishes.get(target.server) if target.kind == "tool" else None

    def _timeouts_of(self, target: Target) -> CallTimeouts:
        tool = target.name if target.kind == "tool" else ""
        return timeouts_for(self._config.hub.timeouts, self._config.servers.get(target.server), tool)
