"""Counts the calls of one rate exactly: no window of the rate's length ever has more calls than the limit."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from interlock.config.settings import Rate
from interlock.wire.errors import Fault

GRAINS: Final = 32
"""A window with a limit of up to this many calls keeps the time of each. A larger one groups the calls within this part
of the window, and forgets a group with its last call: a little late, never early."""


class _Window:
    """The calls within the last `seconds`."""

    __slots__ = ("_calls", "_count", "_grain", "_opened", "_since", "_until", "max_calls", "seconds")

    def __init__(self, max_calls: int, seconds: int) -> None:
        self.seconds = seconds
        self._until = array("d")
        """When each group of calls is forgotten, oldest first."""
        self._since = array("d")
        """The time of the first call of each group."""
        self._calls = array("Q")
        """The size of each group."""
        self._count = 0
        self._opened = 0.0
        """Until when the newest group takes further calls."""
        self.limit(max_calls)

    def limit(self, max_calls: int) -> None:
        """Set the limit. Past calls still count."""
        self.max_calls = max_calls
        self._grain = 0.0 if max_calls <= GRAINS else self.seconds / GRAINS

    def wait_s(self, now: float) -> float:
        """Seconds until the next call is allowed; 0 if it is allowed now."""
        self._forget(now)
        over = self._count - self.max_calls
        if over < 0:
            return 0.0
        for until, calls in zip(self._until, self._calls, strict=True):
            over -= calls
            if over < 0:
                return until - now
        raise AssertionError("the count is the sum of all groups")

    def take(self, now: float) -> None:
        """Count a call that `wait_s` allowed."""
        if self._calls and now < self._opened:
            self._until[-1] = now + self.seconds
            self._calls[-1] += 1
        else:
            self._until.append(now + self.seconds)
            self._since.append(now)
            self._calls.append(1)
            self._opened = now + self._grain
        self._count += 1

    def give_back(self, taken: float) -> None:
        """Uncount the call that `take` counted at that time; a forgotten call no longer counts anyway."""
        group = bisect_left(self._until, taken + self.seconds)
        if group == len(self._until) or self._since[group] > taken:
            return
        self._count -= 1
        self._calls[group] -= 1
        if not self._calls[group]:
            if group == len(self._calls) - 1:
                self._opened = taken  # the group before it was full already
            self._delete(group)

    def is_idle(self, now: float) -> bool:
        """Whether it has no calls."""
        self._forget(now)
        return self._count == 0

    def _forget(self, now: float) -> None:
        while self._until and self._until[0] <= now:
            self._count -= self._calls[0]
            self._delete(0)

    def _delete(self, group: int) -> None:
        del self._calls[group], self._since[group], self._until[group]


class Meter:
    """The calls of one rate."""

    __slots__ = ("_windows", "of", "rate", "setting")

    def __init__(self, of: str, rate: Rate, setting: str = "") -> None:
        self.of = of
        self.setting = setting
        """The setting of the rate, where a refusal names it."""
        self._windows: list[_Window] = []
        self.limit(rate)

    def limit(self, rate: Rate) -> None:
        """Set another rate. Past calls still count."""
        known = {window.seconds: window for window in self._windows}
        self.rate = rate
        self._windows = []
        for max_calls, seconds in ((rate.per_minute, 60), (rate.per_hour, 3600)):
            if max_calls is not None:
                window = known.get(seconds) or _Window(max_calls, seconds)
                window.limit(max_calls)
                self._windows.append(window)

    def wait_s(self, now: float) -> float:
        """Seconds until the next call is allowed."""
        return max((window.wait_s(now) for window in self._windows), default=0.0)

    def full(self, now: float) -> tuple[int, int]:
        """The limit with the longest wait, and its seconds."""
        window = max(self._windows, key=lambda window: window.wait_s(now))
        return window.max_calls, window.seconds

    def take(self, now: float) -> None:
        """Count a call."""
        for window in self._windows:
            window.take(now)

    def take_if_allowed(self, now: float) -> float:
        """Count a call that is allowed now. Returns 0, or the seconds until one is allowed."""
        wait_s = self.wait_s(now)
        if wait_s <= 0:
            self.take(now)
        return max(0.0, wait_s)

    def give_back(self, taken: float) -> None:
        """Uncount a call that was counted at that time and not made."""
        for window in self._windows:
            window.give_back(taken)

    def is_idle(self, now: float) -> bool:
        """Whether it has no calls, so that a new meter would be equal."""
        return all(window.is_idle(now) for window in self._windows)


class Meters:
    """Meters by name, one for each sender."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._meters: dict[str, Meter] = {}

    def wait_s(self, name: str, rate: Rate, now: float) -> float:
        """Count a message of a sender if its rate allows it now. Returns 0, or the seconds until it does."""
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = Meter(self._of, rate)
        elif meter.rate != rate:
            meter.limit(rate)
        return meter.take_if_allowed(now)

    def take(self, name: str, rate: Rate, now: float) -> None:
        """Count a message of a sender. Raises RATE_LIMITED."""
        wait_s = self.wait_s(name, rate, now)
        if wait_s > 0:
            raise Fault("RATE_LIMITED", f"the {self._of}'s rate is used up", retry_after_ms=int(wait_s * 1000) + 1)
