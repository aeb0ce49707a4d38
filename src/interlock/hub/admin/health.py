"""The health of the hub and its servers, for operators."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.hub.admin.operation import Text
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import WITHOUT_FAULT, Upstream
from interlock.process.turns import in_turns
from interlock.protocols.mgp.health import Health
from interlock.wire.errors import Fault


class HealthOperations:
    """Shows the health of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def show(self, by: Principal, params: ShowHealth, trace: str) -> HubHealth:
        """The health of the hub and of every server. A named server is asked now, and says more."""
        hub_app = self._hub_app
        refusal = hub_app.refusal
        if params.server is None:
            servers = [_row(upstream, None) async for upstream in in_turns(list(hub_app.upstreams))]
        else:
            upstream = hub_app.upstreams.get(params.server)
            if upstream is None:
                hint = "`interlock status` shows all of them"
                raise Fault("NOT_FOUND", f"no server {params.server[:100]!r}", hint=hint)
            details = await hub_app.health_monitor.examine(upstream)
            servers = [_row(upstream, details)]
        well = refusal is None and all(row.health in WITHOUT_FAULT for row in servers)
        status = Health.UNHEALTHY if refusal is not None else Health.HEALTHY if well else Health.DEGRADED
        return HubHealth(status, "" if refusal is None else refusal[1].for_operators, servers)


def _row(upstream: Upstream, details: dict[str, Any] | None) -> HealthRow:
    health, outcomes, problem = upstream.health, upstream.outcomes, upstream.problem
    reasons = health.reasons if upstream.usable or problem is None else [problem.for_operators]
    return HealthRow(
        upstream.id,
        upstream.state,
        upstream.condition,
        reasons,
        health.checked_at,
        health.answer_ms,
        outcomes.counted,
        outcomes.failed,
        details,
    )


class ShowHealth(msgspec.Struct):
    """Whose health to show."""

    server: Text | None = None


class HealthRow(msgspec.Struct):
    """The health of a server."""

    server: str
    state: ServerState
    health: str
    """`healthy`, `degraded`, `unhealthy`; `idle` for a server that waits for its first call, `starting` for one that
    starts or comes back, `stopped` for one that was stopped, `down` for any other."""
    reasons: list[str]
    checked_at: datetime | None
    answer_ms: float | None
    """How long the last check took; null where no answer came."""
    calls: int
    """How many of the last calls are looked back on."""
    calls_failed: int
    details: dict[str, Any] | None
    """The answer to `mgp/health/status`, as the server gave it."""


class HubHealth(msgspec.Struct):
    """The health of the hub and its servers."""

    status: Health
    reason: str
    """Why every call is refused; empty otherwise."""
    servers: list[HealthRow]
