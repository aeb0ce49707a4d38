"""Rates: the calls per minute and hour of a key, an agent, a tool, a server's own requests, and the hub as a whole.

No window of a rate's length ever has more calls than its limit. Rates are counted in memory. A call counts for all of
its rates, or for none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from interlock.config.settings import Config, Rate
from interlock.hub.auth.keys import Keys
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.catalog.target import CLIENT_KINDS, Target
from interlock.hub.rate_meter import Meter
from interlock.wire.errors import Fault

MAX_METERS: Final = 100_000
"""Upper bound for meters. Beyond it an idle one of the oldest is dropped, or else the oldest."""
LOOKED_AT: Final = 16
"""How many of the oldest are checked for that."""


class Rates:
    """The meters of one hub."""

    def __init__(self, config: Callable[[], Config], keys: Keys, clock: Callable[[], float]) -> None:
        self._config = config
        self._keys = keys
        self._clock = clock
        self._meters: OrderedDict[tuple[str, str], Meter] = OrderedDict()

    def of(self, principal: Principal, target: Target) -> tuple[Meter, ...]:
        """The meters that count a principal's calls of a target; most calls have none."""
        config = self._config()
        server = config.servers.get(target.server)
        if target.kind in CLIENT_KINDS:
            # A server's requests to clients take nothing from callers, not even from the hub's rate.
            rate = None if server is None else server.requests.rate_of(target.name)
            if rate is None or not rate.limits:
                return ()
            setting = f"rate.{target.name} under [servers.{target.server}.requests]"
            return (self._meter("server", f"{target.server}\0{target.name}", rate, setting),)
        key = self._keys.get(principal.key) if principal.key else None
        agent = config.agents.get(principal.id)
        tool = None if server is None or target.kind != "tool" else server.tools.rate.get(target.name)
        wanted = (
            ("key", principal.key, None if key is None else key.rate),
            ("agent", principal.id, None if agent is None else agent.rate),
            ("tool", f"{target.server}\0{target.name}", tool),
            ("hub", "", config.hub.rate),
        )
        return tuple(self._meter(kind, name, rate) for kind, name, rate in wanted if rate is not None and rate.limits)

    def _meter(self, kind: str, name: str, rate: Rate, setting: str = "") -> Meter:
        meter = self._meters.get((kind, name))
        if meter is None:
            if len(self._meters) >= MAX_METERS:
                self._evict_oldest()
            meter = self._meters[kind, name] = Meter(kind, rate, setting)
        elif meter.rate != rate:
            meter.limit(rate)
        self._meters.move_to_end((kind, name))
        return meter

    def _evict_oldest(self) -> None:
        now = self._clock()
        oldest = list(islice(self._meters, LOOKED_AT))
        gone = next((known for known in oldest if self._meters[known].is_idle(now)), oldest[0])
        del self._meters[gone]


def limited(meters: Sequence[Meter], now: float) -> Refuse | None:
    """The refusal of a call that has to wait. Counts nothing."""
    waits = [(meter.wait_s(now), meter) for meter in meters]
    wait_s, meter = max(waits, key=lambda found: found[0], default=(0.0, None))
    if meter is None or wait_s <= 0:
        return None
    wait_ms = max(1, int(wait_s * 1000) + 1)
    most, seconds = meter.full(now)
    data = {"limit": most, "window_secs": seconds}
    message, hint = f"the {meter.of}'s rate is used up", ""
    if meter.setting:
        message, hint = f"{message}: {meter.setting}", "wait, or the operator sets a higher rate there"
    fault = Fault("RATE_LIMITED", message, hint=hint, retry_after_ms=wait_ms, data=data)
    return Refuse(fault, f"rate of the {meter.of}: {meter.rate}")


def take(meters: Sequence[Meter], now: float) -> Refuse | None:
    """Count a call for every meter, or return the refusal of one that is used up."""
    refusal = limited(meters, now)
    if refusal is None:
        for meter in meters:
            meter.take(now)
    return refusal


def give_back(meters: Sequence[Meter], taken: float) -> None:
    """Undo the `take` of that time: the call did not go out."""
    for meter in meters:
        meter.give_back(taken)
