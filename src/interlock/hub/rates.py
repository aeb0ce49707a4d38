"""Rates: how much may be asked per minute and hour, of a key, an agent, a tool and the hub as a whole.

Token buckets in memory. All that a call needs is taken at once, or nothing is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from interlock.config.settings import Config, Rate
from interlock.hub.keys import Keys
from interlock.hub.principals import Principal
from interlock.hub.target import Target
from interlock.hub.verdicts import Refuse
from interlock.wire.errors import Fault

MOST_METERS: Final = 200_000
"""Beyond that, the one unused for longest starts anew."""


class _Bucket:
    __slots__ = ("_at", "_held", "_per_s", "_size")

    def __init__(self, count: int, seconds: float, now: float) -> None:
        self._size = float(count)
        self._per_s = count / seconds
        self._held = self._size
        self._at = now

    def wait_s(self, now: float) -> float:
        """How long until there is one to take; 0 when there is."""
        self._held = min(self._size, self._held + (now - self._at) * self._per_s)
        self._at = now
        return 0.0 if self._held >= 1 else (1 - self._held) / self._per_s

    def take(self) -> None:
        """One less. `wait_s` said that there is one."""
        self._held -= 1

    def give_back(self) -> None:
        """One more, after all."""
        self._held = min(self._size, self._held + 1)


class Meter:
    """What is left of one rate."""

    __slots__ = ("_buckets", "of", "rate")

    def __init__(self, of: str, rate: Rate, now: float) -> None:
        self.of = of
        self.rate = rate
        sizes = ((rate.per_minute, 60.0), (rate.per_hour, 3600.0))
        self._buckets = [_Bucket(count, seconds, now) for count, seconds in sizes if count is not None]

    def wait_s(self, now: float) -> float:
        """How long until a call may be made."""
        return max((bucket.wait_s(now) for bucket in self._buckets), default=0.0)

    def take(self) -> None:
        """Use up one call."""
        for bucket in self._buckets:
            bucket.take()

    def give_back(self) -> None:
        """A call that was taken was not made."""
        for bucket in self._buckets:
            bucket.give_back()


class Rates:
    """The meters of one hub."""

    def __init__(self, config: Callable[[], Config], keys: Keys, clock: Callable[[], float]) -> None:
        self._config = config
        self._keys = keys
        self._clock = clock
        self._meters: OrderedDict[tuple[str, str], Meter] = OrderedDict()

    def of(self, principal: Principal, target: Target) -> tuple[Meter, ...]:
        """The meters that a principal's calls of a target run through; most have none."""
        config = self._config()
        key = self._keys.get(principal.key) if principal.key else None
        agent = config.agents.get(principal.id)
        server = config.servers.get(target.server)
        tool = None if server is None or target.kind != "tool" else server.tools.rate.get(target.name)
        wanted = (
            ("key", principal.key, None if key is None else key.rate),
            ("agent", principal.id, None if agent is None else agent.rate),
            ("tool", f"{target.server}\0{target.name}", tool),
            ("hub", "", config.hub.rate),
        )
        return tuple(self._meter(kind, name, rate) for kind, name, rate in wanted if rate is not None and rate.limits)

    def _meter(self, kind: str, name: str, rate: Rate) -> Meter:
        meter = self._meters.get((kind, name))
        if meter is None or meter.rate != rate:
            meter = self._meters[kind, name] = Meter(kind, rate, self._clock())
            if len(self._meters) > MOST_METERS:
                self._meters.popitem(last=False)
        self._meters.move_to_end((kind, name))
        return meter


def limited(meters: Sequence[Meter], now: float) -> Refuse | None:
    """Whether a call has to wait, and for how long. Nothing is taken."""
    waits = [(meter.wait_s(now), meter) for meter in meters]
    wait_s, meter = max(waits, key=lambda found: found[0], default=(0.0, None))
    if meter is None or wait_s <= 0:
        return None
    wait_ms = max(1, int(wait_s * 1000) + 1)
    fault = Fault("RATE_LIMITED", f"the {meter.of}'s rate is used up", retry_after_ms=wait_ms)
    return Refuse(fault, f"rate of the {meter.of}: {meter.rate}")


def take(meters: Sequence[Meter], now: float) -> Refuse | None:
    """Take one call from every meter, or say which of them is empty."""
    refusal = limited(meters, now)
    if refusal is None:
        for meter in meters:
            meter.take()
    return refusal


def give_back(meters: Sequence[Meter]) -> None:
    """Undo a `take`: the call did not go out."""
    for meter in meters:
        meter.give_back()
