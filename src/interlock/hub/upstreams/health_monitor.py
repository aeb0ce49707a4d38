"""Asks every connected server for its health on a schedule, and publishes each change of health.

The checks are spread over the interval and few run at once, so that a thousand servers cost no burst. A server that
agreed on MGP's `lifecycle` gets `mgp/health/ping`, a plain one `ping` or `server/discover`, as its revision has it. A
plain one that has just answered a call is not asked: a ping would say no more.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interlock.client.connection import Connection
from interlock.events import Bus
from interlock.events.types import ServerHealthChanged, now_us
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.health import PING, PING_S, STATUS, Health, read_ping, timestamp
from interlock.wire.errors import Fault

LOOK_EVERY_S: Final = 1.0
"""How often the monitor looks which servers are due, and whose health changed."""
AT_ONCE: Final = 16
"""Checks that run at the same time."""
LOOKED_AT_ONCE: Final = 100
"""Servers looked at in one turn of the loop."""
MAX_DETAIL_BYTES: Final = 16 * 1024
_OF_MCP: Final = frozenset({"_meta", "resultType"})
"""Members of every result, which say nothing of health."""


class HealthMonitor:
    """Watches the servers of one hub. `every_s` is the interval of the present configuration."""

    def __init__(self, upstreams: Upstreams, every_s: Callable[[], float], bus: Bus, logs: Logs) -> None:
        self._upstreams = upstreams
        self._every_s = every_s
        self._bus = bus
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, _Watched] = {}
        self._checks = TaskSet()
        self._watching = TaskSet()

    def start(self) -> None:
        """Watch from now on."""
        self._watching.begin(self._run())

    async def close(self) -> None:
        """Stop asking."""
        await self._watching.close()
        await self._checks.close()

    async def check(self, upstream: Upstream) -> None:
        """Ask one server now, if it is connected."""
        shared = upstream.pool.shared
        if shared is None:
            return
        connection, began = shared.connection, time.monotonic()
        try:
            status = await _ask(connection)
        except Fault as fault:
            if fault.foreign_code is None:
                upstream.health.on_silence()
                return
            status = Health.HEALTHY.value  # an error is an answer too
        upstream.health.on_answer(status, (time.monotonic() - began) * 1000)

    async def examine(self, upstream: Upstream) -> dict[str, Any] | None:
        """Ask one server now, also in full. Returns its answer in full, if it gave one.

        A ping may report the last outcome of the server's checks. The full answer is current, so it replaces the ping.
        """
        await self.check(upstream)
        details = await self.details(upstream)
        if details is not None and "status" in details:
            upstream.health.on_status(details["status"])
        return details

    async def details(self, upstream: Upstream) -> dict[str, Any] | None:
        """A server's answer to `mgp/health/status`; None if it did not agree on it, or the answer is too large."""
        shared = upstream.pool.shared
        if shared is None or not _agreed(shared.connection):
            return None
        try:
            result = await shared.connection.request(STATUS, {}, timeout=PING_S)
            if len(result) > MAX_DETAIL_BYTES:
                return None
            members = msgspec.json.decode(result, type=dict[str, Any])
            return {name: value for name, value in members.items() if name not in _OF_MCP}
        except (Fault, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except Exception as cause:
                context = {"message": "the health monitor failed", "exception": cause}
                asyncio.get_running_loop().call_exception_handler(context)

    async def _look(self) -> None:
        upstreams, watched = tuple(self._upstreams), self._watched
        now, every_s = self._loop.time(), self._every_s()
        for count, upstream in enumerate(upstreams, 1):
            known = watched.get(upstream.id)
            if known is None:
                known = watched[upstream.id] = _Watched()
            if upstream.state is ServerState.CONNECTED:
                health = upstream.health.now
                if health is not known.health:
                    self._tell_change(upstream, known, health)
                if not known.due:
                    # The first check comes late in the interval, and chance spreads servers that started together.
                    known.due = now + every_s * random.uniform(0.5, 1.0)
                elif now >= known.due and len(self._checks) < AT_ONCE:
                    known.due = now + every_s * random.uniform(0.9, 1.1)
                    if not _take_call_for_check(upstream, now - every_s):
                        self._checks.begin(self.check(upstream))
            else:
                known.health = None
            if count % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if len(watched) > len(upstreams):
            present = {upstream.id for upstream in upstreams}
            self._watched = {id_: known for id_, known in watched.items() if id_ in present}

    def _tell_change(self, upstream: Upstream, known: _Watched, health: Health) -> None:
        before, known.health = known.health, health
        if before is None and health is Health.HEALTHY:
            return
        reason = "; ".join(upstream.health.reasons)
        self._logs.add(upstream.id, "hub", f"is {health.value}" + (f": {reason}" if reason else " again"))
        if self._bus.wants(ServerHealthChanged):
            was = (before or Health.HEALTHY).value
            event = ServerHealthChanged(upstream.id, self._bus.next(), now_us(), was, health.value, reason)
            self._bus.publish(event)


class _Watched:
    """A server that the monitor watches."""

    __slots__ = ("due", "health")

    def __init__(self) -> None:
        self.due = 0.0
        """When it is asked next, by the loop's clock; 0 before it was connected."""
        self.health: Health | None = Health.HEALTHY
        """Its last published health; None while it does not run."""


def _take_call_for_check(upstream: Upstream, since: float) -> bool:
    """Whether every call to a plain server succeeded since then, on the connection that a check would use."""
    shared, took_us = upstream.pool.shared, upstream.outcomes.take_success()
    if shared is None or _agreed(shared.connection) or upstream.pool.private.open_connections():
        return False
    if took_us is None or upstream.last_use < since:
        return False
    upstream.health.on_answer(Health.HEALTHY.value, took_us / 1000)
    return True


def _agreed(connection: Connection) -> bool:
    return connection.mgp is not None and "lifecycle" in connection.mgp.extensions


async def _ask(connection: Connection) -> str:
    """The status as the server says it. Raises a `Fault` where no answer came in time."""
    if not _agreed(connection):
        await connection.check(PING_S)
        return Health.HEALTHY.value
    return read_ping(await connection.request(PING, {"timestamp": timestamp(datetime.now(UTC))}, timeout=PING_S))
