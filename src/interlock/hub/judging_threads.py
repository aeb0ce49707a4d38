"""Threads for judgements that would take the loop too long: some for the checks of calls, others for results.

So a check never waits for a result. Within each kind, the principals of calls take turns. Checks beyond a bound are
refused. A call whose tool has run is always answered: beyond a bound of bytes its result is not judged, and flagged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from interlock.process.fair_threads import FairThreads
from interlock.process.open_counts import OpenCounts
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

THREADS: Final = 2
"""Threads of each kind."""
MAX_CHECKS: Final = 512
MAX_CHECKS_PER_PRINCIPAL: Final = 256
"""Checks that may be under way or wait, in all and of one principal. Beyond that calls are refused. Each principal
may have one check in any case."""
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
MAX_RESULT_BYTES_PER_PRINCIPAL: Final = 32 * 1024 * 1024
"""Bytes of the results that are judged or wait, in all and of one principal. Each principal may have one result in any
case."""

Judged = TypeVar("Judged")


class TooManyResults(Exception):
    """So many bytes of results wait that a further result is not judged."""


class JudgingThreads:
    """The threads of one hub, and its resolver of names."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.warm: set[str] = set()
        """Validators that were used before: the first use loads and compiles, which takes a tenth of a second."""
        self._checks = FairThreads(THREADS, "check")
        self._results = FairThreads(THREADS, "result")
        self._open_checks: OpenCounts[str] = OpenCounts()
        self._result_bytes: OpenCounts[str] = OpenCounts()

    @property
    def open_checks(self) -> Mapping[str, int]:
        """How many checks of each principal have a thread or wait for one."""
        return self._open_checks

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """How many bytes of each principal's results are judged or wait for it."""
        return self._result_bytes

    async def run_check(self, principal_name: str, judge: Callable[[], Judged]) -> Judged:
        """Judge something that can still be refused. Raises RESOURCE_EXHAUSTED."""
        open_checks = self._open_checks
        too_many = open_checks.total() >= MAX_CHECKS or open_checks[principal_name] >= MAX_CHECKS_PER_PRINCIPAL
        if too_many and open_checks[principal_name]:
            raise Fault("RESOURCE_EXHAUSTED", f"{open_checks.total()} calls wait to be checked", retry_after_ms=1000)
        with _counted(open_checks, principal_name, 1):
            return await self._checks.run(principal_name, judge)

    @contextlib.contextmanager
    def holding_result(self, principal_name: str, size: int) -> Iterator[None]:
        """Count the bytes of a result that waits to be judged. Raises `TooManyResults`."""
        held = self._result_bytes
        too_many = (
            held.total() + size > MAX_RESULT_BYTES or held[principal_name] + size > MAX_RESULT_BYTES_PER_PRINCIPAL
        )
        if too_many and held[principal_name]:
            raise TooManyResults
        with _counted(held, principal_name, size):
            yield

    async def run_result(
        self, principal_name: str, judge: Callable[[], Judged], is_wanted: Callable[[], bool] | None = None
    ) -> Judged:
        """Judge text on its way to a principal. Raises `Unwanted` if nobody waits for it when its turn comes."""
        return await self._results.run(principal_name, judge, is_wanted)

    def close(self) -> None:
        """End the threads."""
        self._checks.close()
        self._results.close()
        self.resolver.close()


@contextlib.contextmanager
def _counted(counts: OpenCounts[str], principal_name: str, amount: int) -> Iterator[None]:
    """Count an amount for a principal."""
    counts.add(principal_name, amount)
    try:
        yield
    finally:
        counts.add(principal_name, -amount)
