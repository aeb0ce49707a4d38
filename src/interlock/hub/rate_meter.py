"""Counts what was used of one rate, exactly: no stretch of the rate's length ever holds more calls than the limit."""

from __future__ import annotations

from array import array
from typing import Final

from interlock.config.settings import Rate

GRAINS: Final = 32
"""A window of up to so many calls knows the instant of each. A larger one keeps those together that come within this
part of it, and forgets them with the last of them: at most that much later than it could, never earlier."""


class _Window:
    """The calls of the last so many seconds."""

    __slots__ = ("_calls", "_grain", "_held", "_opened", "_until", "most", "seconds")

    def __init__(self, most: int, seconds: int) -> None:
        self.seconds = seconds
        self._until = array("d")
        """When calls are forgotten, oldest first; and how many then."""
        self._calls = array("Q")
        self._held = 0
        self._opened = 0.0
        """Until when the newest of them takes further calls in."""
        self.limit(most)

    def limit(self, most: int) -> None:
        """Allow so many from now on. Those that were made are not forgotten for it."""
        self.most = most
        self._grain = 0.0 if most <= GRAINS else self.seconds / GRAINS

    def wait_s(self, now: float) -> float:
        """How long until one more may be made; 0 when it may."""
        self._forget(now)
        over = self._held - self.most
        if over < 0:
            return 0.0
        for until, calls in zip(self._until, self._calls, strict=True):
            over -= calls
            if over < 0:
                return until - now
        raise AssertionError("what is held is the sum of what is forgotten by and by")

    def take(self, now: float) -> None:
        """One more. `wait_s` said that it may be made."""
        if self._calls and now < self._opened:
            self._until[-1] = now + self.seconds
            self._calls[-1] += 1
        else:
            self._until.append(now + self.seconds)
            self._calls.append(1)
            self._opened = now + self._grain
        self._held += 1

    def give_back(self) -> None:
        """One less after all: of the oldest, so that none of those that were made is forgotten early."""
        if self._held:
            self._drop(1)

    def is_idle(self, now: float) -> bool:
        """Whether it remembers nothing."""
        self._forget(now)
        return self._held == 0

    def _forget(self, now: float) -> None:
        while self._until and self._until[0] <= now:
            self._drop(self._calls[0])

    def _drop(self, calls: int) -> None:
        self._held -= calls
        self._calls[0] -= calls
        if not self._calls[0]:
            del self._calls[0], self._until[0]


class Meter:
    """What was used up of one rate."""

    __slots__ = ("_windows", "of", "rate")

    def __init__(self, of: str, rate: Rate) -> None:
        self.of = of
        self._windows: list[_Window] = []
        self.limit(rate)

    def limit(self, rate: Rate) -> None:
        """Go by another rate. What was used up stays so."""
        known = {window.seconds: window for window in self._windows}
        self.rate = rate
        self._windows = []
        for most, seconds in ((rate.per_minute, 60), (rate.per_hour, 3600)):
            if most is not None:
                window = known.get(seconds) or _Window(most, seconds)
                window.limit(most)
                self._windows.append(window)

    def wait_s(self, now: float) -> float:
        """How long until a call may be made."""
        return max((window.wait_s(now) for window in self._windows), default=0.0)

    def full(self, now: float) -> tuple[int, int]:
        """The limit that is waited for longest, and its seconds."""
        window = max(self._windows, key=lambda window: window.wait_s(now))
        return window.most, window.seconds

    def take(self, now: float) -> None:
        """Use up one call."""
        for window in self._windows:
            window.take(now)

    def give_back(self) -> None:
        """A call that was taken was not made."""
        for window in self._windows:
            window.give_back()

    def is_idle(self, now: float) -> bool:
        """Whether nothing of it is used up, so that a new one would do as well."""
        return all(window.is_idle(now) for window in self._windows)
