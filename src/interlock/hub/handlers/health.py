"""Answers `mgp/health/ping` and `mgp/health/status` (MGP, Health Check Protocol).

At an address of many servers the answer is about the hub itself, at the address of one server about that server as the
hub knows it. A client learns nothing of tools and servers that its lists do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.views import Catalog
from interlock.hub.readiness import Readiness
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.upstream import WITHOUT_FAULT, Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.memory import resident_mb
from interlock.process.turns import in_turns
from interlock.protocols.mcp.results import own_result
from interlock.protocols.mgp.health import HUB, PING, STATUS, Health, HealthStatus, PingResult, timestamp

MAX_SERVERS: Final = 1_000
"""Servers in one status."""

Handler = Callable[[Exchange, Caller], Coroutine[Any, Any, None]]


class HealthHandler:
    """Reports the health of the hub and of its servers to clients."""

    def __init__(
        self,
        readiness: Readiness,
        catalog: Catalog,
        access: Access,
        upstreams: Upstreams,
        background: BackgroundTasks,
    ) -> None:
        self._background = background
        self._readiness = readiness
        self._catalog = catalog
        self._access = access
        self._upstreams = upstreams

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {PING: partial(self._begin, self._ping), STATUS: partial(self._begin, self._status)}

    def _begin(self, answer: Handler, exchange: Exchange, caller: Caller) -> None:
        """Answer in short turns of the loop, as there may be thousands of servers."""
        self._background.begin(answer(exchange, caller), exchange)

    async def _ping(self, exchange: Exchange, caller: Caller) -> None:
        upstream = self._upstreams.only(caller.view)
        if upstream is None:
            health = self._hub_health(await self._states(caller))
            ping = PingResult(health, timestamp(datetime.now(UTC)), int(self._readiness.uptime_s), HUB)
        else:
            ping = PingResult(_health(upstream), timestamp(datetime.now(UTC)), upstream.uptime_secs, upstream.id)
        _answer(exchange, ping)

    async def _status(self, exchange: Exchange, caller: Caller) -> None:
        upstream = self._upstreams.only(caller.view)
        available, total = await self._tools(caller)
        if upstream is None:
            reads = (rights := self._access.rights(caller.principal)) is not None and rights.admin_read
            refusal = self._readiness.refusal
            states = await self._states(caller)
            shown = {each: states[each] for each in islice(states, MAX_SERVERS)}
            resources: dict[str, object] = {"servers": shown}
            if reads:
                resources["memory_bytes"] = int((resident_mb() or 0) * 1e6)
            status = HealthStatus(
                self._hub_health(states),
                int(self._readiness.uptime_s),
                available,
                total,
                len(caller.open_calls.sent),
                resources,
                {name: refusal is None or refusal[0] != name for name in ("keys", "audit")},
            )
        else:
            state = {"state": upstream.state.value}
            pending = upstream.open_calls
            status = HealthStatus(_health(upstream), upstream.uptime_secs, available, total, pending, {}, state)
        _answer(exchange, status)

    def _hub_health(self, states: Mapping[str, Mapping[str, str]]) -> Health:
        """Unhealthy while every call is refused; degraded while a server that the caller sees is down."""
        if self._readiness.refusal is not None:
            return Health.UNHEALTHY
        well = all(state["health"] in WITHOUT_FAULT for state in states.values())
        return Health.HEALTHY if well else Health.DEGRADED

    async def _states(self, caller: Caller) -> dict[str, dict[str, str]]:
        """The state and the health of each server that the caller's lists can show."""
        states = {}
        async for server in in_turns(self._catalog.servers(caller.view)):
            upstream = self._upstreams.get(server)
            if upstream is not None and self._access.reaches(caller.principal, server):
                states[server] = {"state": upstream.state.value, "health": upstream.condition}
        return states

    async def _tools(self, caller: Caller) -> tuple[int, int]:
        """How many tools of the caller's lists can be called now, and how many there are."""
        seen_of, available, total = self._access.seen_of(caller.principal), 0, 0
        async for server, part in in_turns(self._catalog.parts(caller.view, "tool").items()):
            upstream, seen = self._upstreams.get(server), len(seen_of(server, part.items))
            total += seen
            available += seen if upstream is not None and upstream.usable else 0
        return available, total


def _health(upstream: Upstream) -> Health:
    return upstream.health.now if upstream.usable else Health.UNHEALTHY


def _answer(exchange: Exchange, answer: msgspec.Struct) -> None:
    result = msgspec.json.encode(answer)
    exchange.result(own_result(result) if exchange.dialect.modern else result)
