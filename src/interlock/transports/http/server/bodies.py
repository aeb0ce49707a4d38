"""Bounds the memory of request bodies over all connections of one listening address.

A large body counts from its first byte until its request is answered (`request_bytes.py`). Beyond the bound the newest
is refused, and can be sent again. A small body counts while it comes in. Beyond the bound the oldest is refused, since
it is the slowest.
"""

from __future__ import annotations

from typing import Protocol

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.request_bytes import RequestBytes

CROWDED = GuardRefusal(503, "too many request bodies at once", "RESOURCE_EXHAUSTED", b"retry-after: 1\r\n")


class BodySender(Protocol):
    """A connection whose request body is held."""

    @property
    def sender(self) -> str:
        """The caller that sends the body, or the client's address."""

    def give_way(self) -> None:
        """Drop its body, and refuse its request."""


class RequestBodies:
    """The bodies of one listening address."""

    def __init__(self, bounds: HttpBounds, large: RequestBytes) -> None:
        self._bounds = bounds
        self._small: dict[BodySender, int] = {}
        self.large = large
        """The large bodies, and other requests of this address that count with them."""
        self.small_bytes = 0

    @property
    def bytes(self) -> int:
        """All that is held now."""
        return self.small_bytes + self.large.bytes

    def hold(self, sender: BodySender, size: int) -> bool:
        """Note how many bytes a connection holds now. False where there is no room for them."""
        if size <= self._bounds.early_bytes and sender not in self.large:
            self.small_bytes += size - self._small.get(sender, 0)
            self._small[sender] = size
            return self.small_bytes <= self._bounds.small_bytes or self._evict_oldest(sender)
        self.release(sender)
        return self.large.hold(sender, sender.sender, size)

    def received(self, sender: BodySender) -> None:
        """The body has come in. A large one counts until `release`."""
        if sender in self._small:
            self.small_bytes -= self._small.pop(sender)

    def release(self, sender: BodySender) -> None:
        """The connection holds nothing more."""
        self.small_bytes -= self._small.pop(sender, 0)
        self.large.release(sender)

    def _evict_oldest(self, sender: BodySender) -> bool:
        while self.small_bytes > self._bounds.small_bytes:
            oldest = next(iter(self._small))
            if oldest is sender:
                return False
            self.release(oldest)
            oldest.give_way()
        return True
