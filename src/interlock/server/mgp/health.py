"""A server's health: `mgp/health/ping`, `mgp/health/status`, and the author's checks (MGP, Health Check Protocol).

A ping is answered on the loop with the outcome of the last checks, so it is answered while every thread of the server
is busy. Checks that block have threads of their own, and a check that takes too long has failed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.health import PING, STATUS, Health, HealthStatus, PingResult, timestamp
from interlock.server.definitions.offers import Offers
from interlock.server.handlers.calls import Calls
from interlock.server.mgp.agreement import Handler
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange
from interlock.server.requests.threads import Threads
from interlock.signatures import DefinitionError

CHECK_S: Final = 3.0
"""A check that takes longer has failed. A ping must be answered within five seconds."""
FRESH_S: Final = 5.0
"""A ping after this time starts the checks again, and does not wait for them."""
CHECK_THREADS: Final = 8

log = logging.getLogger("interlock.server")


class HealthCheck(msgspec.Struct, eq=False):
    """One check of the author's, and how it last ended."""

    name: str
    function: Callable[[], Any]
    critical: bool
    running: asyncio.Task[None] | None = None
    passed: bool = True


class HealthReporter:
    """The health of one server, and the handlers that report it."""

    def __init__(self, name: str, offers: Offers, calls: Calls, framing: Framing) -> None:
        self._name = name
        self._offers = offers
        self._calls = calls
        self._framing = framing
        self._checks: dict[str, HealthCheck] = {}
        self._threads = Threads(CHECK_THREADS)
        self._started = time.monotonic()
        self._checked_at: float | None = None
        self._tasks = TaskSet()

    def handlers(self) -> dict[str, Handler]:
        """The handler of each method."""
        return {PING: self._ping, STATUS: self._status}

    def add(self, function: Callable[[], Any], name: str | None, critical: bool) -> None:
        """Add a check. Raises DefinitionError where its name is taken or it takes parameters."""
        named = name or str(getattr(function, "__name__", "check"))
        if named in self._checks:
            raise DefinitionError(f"there is a health check {named!r} already")
        needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
            raise DefinitionError(f"the health check {named!r} takes parameters; a check is called without any")
        self._checks[named] = HealthCheck(named, function, critical)

    @property
    def now(self) -> Health:
        """The health by the last outcome of each check."""
        failed = [check for check in self._checks.values() if not check.passed]
        if any(check.critical for check in failed):
            return Health.UNHEALTHY
        return Health.DEGRADED if failed else Health.HEALTHY

    @property
    def uptime_secs(self) -> int:
        return int(time.monotonic() - self._started)

    def close(self) -> None:
        """End the checks."""
        self._tasks.cancel()
        self._threads.close()

    def _ping(self, exchange: Exchange) -> None:
        if self._checks and self._checked_at is None:
            self._begin(self._answer_ping_after_checks(exchange))
            return
        if self._checks and time.monotonic() - (self._checked_at or 0.0) > FRESH_S:
            self._begin(self._run_checks())
        self._answer_ping(exchange)

    def _status(self, exchange: Exchange) -> None:
        if self._checks:
            self._begin(self._answer_status_after_checks(exchange))
        else:
            self._answer_status(exchange)

    async def _answer_ping_after_checks(self, exchange: Exchange) -> None:
        await self._run_checks()
        self._answer_ping(exchange)

    async def _answer_status_after_checks(self, exchange: Exchange) -> None:
        await self._run_checks()
        self._answer_status(exchange)

    def _answer_ping(self, exchange: Exchange) -> None:
        self._answer(exchange, PingResult(self.now, timestamp(datetime.now(UTC)), self.uptime_secs, self._name))

    def _answer_status(self, exchange: Exchange) -> None:
        tools = sum(1 for _ in self._offers.tools)
        checks = {check.name: check.passed for check in self._checks.values()}
        pending = self._calls.pending
        self._answer(exchange, HealthStatus(self.now, self.uptime_secs, tools, tools, pending, {}, checks))

    def _answer(self, exchange: Exchange, result: msgspec.Struct) -> None:
        self._framing.answer(exchange, msgspec.json.encode(result)[1:-1])

    async def _run_checks(self) -> None:
        """Run every check at the same time. One that still runs from an earlier time has failed."""
        self._checked_at = time.monotonic()
        await asyncio.gather(*map(self._run, self._checks.values()))

    async def _run(self, check: HealthCheck) -> None:
        if check.running is None:
            check.running = asyncio.ensure_future(self._call(check))
        done, _ = await asyncio.wait([check.running], timeout=CHECK_S)
        if not done:
            check.passed = False

    async def _call(self, check: HealthCheck) -> None:
        try:
            if inspect.iscoroutinefunction(check.function):
                value = await check.function()
            else:
                value = await self._threads.run(check.function)
                if inspect.isawaitable(value):
                    value = await value
            check.passed = value is None or bool(value)
        except Exception:
            log.warning("the health check %r failed", check.name, exc_info=True)
            check.passed = False
        finally:
            check.running = None

    def _begin(self, work: Any) -> None:
        self._tasks.begin(work)
