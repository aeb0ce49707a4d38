"""How much request bodies hold over all connections of one listening address, and who gives way when that is too much.

A large body counts from its first byte until its request is answered. With more than one, a caller may hold as much as
is still free, so that some is left for the next one, and the newest body gives way: it can be sent again. A small body
counts while it comes in, and the oldest gives way: it is the slow one, so nobody who sends at once waits.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.guard import Refusal

CROWDED = Refusal(503, "too much is coming in", "RESOURCE_EXHAUSTED", b"retry-after: 1\r\n")


class Sender(Protocol):
    """A connection whose request body is held."""

    @property
    def sender(self) -> str:
        """The caller that sends the body, or the client's address."""

    def give_way(self) -> None:
        """Its body is let go of, and its request refused."""


class Bodies:
    """The bodies of one listening address."""

    def __init__(self, bounds: HttpBounds) -> None:
        self._bounds = bounds
        self._small: dict[Sender, int] = {}
        self._large: dict[Sender, tuple[str, int]] = {}
        self._large_by_caller: Counter[str] = Counter()
        self.small_bytes = 0
        self.large_bytes = 0

    @property
    def bytes(self) -> int:
        """All that is held now."""
        return self.small_bytes + self.large_bytes

    def hold(self, sender: Sender, size: int) -> bool:
        """A connection holds so much now. False where there is no room for it."""
        if size <= self._bounds.early_bytes and sender not in self._large:
            self.small_bytes += size - self._small.get(sender, 0)
            self._small[sender] = size
            return self.small_bytes <= self._bounds.small_bytes or self._evict_oldest(sender)
        self.release(sender)
        caller = sender.sender
        self._large[sender] = caller, size
        self._add(caller, size)
        left = self._bounds.held_bytes - self.large_bytes
        # Otherwise a body of more than half of the bound would be refused for ever.
        is_only = self._large_by_caller[caller] == size
        return left >= 0 and (is_only or self._large_by_caller[caller] <= left)

    def received(self, sender: Sender) -> None:
        """The body has come in. A large one counts until `release`."""
        if sender in self._small:
            self.small_bytes -= self._small.pop(sender)

    def release(self, sender: Sender) -> None:
        """The connection holds nothing more."""
        self.small_bytes -= self._small.pop(sender, 0)
        if sender in self._large:
            caller, size = self._large.pop(sender)
            self._add(caller, -size)

    def _add(self, caller: str, size: int) -> None:
        self.large_bytes += size
        self._large_by_caller[caller] += size
        if not self._large_by_caller[caller]:
            del self._large_by_caller[caller]

    def _evict_oldest(self, sender: Sender) -> bool:
        while self.small_bytes > self._bounds.small_bytes:
            oldest = next(iter(self._small))
            if oldest is sender:
                return False
            self.release(oldest)
            oldest.give_way()
        return True
