"""The open `subscriptions/listen` streams (stateless era): bounded in number, and per owner."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

from interlock.hub.auth.principals import Principal
from interlock.process.open_counts import OpenCounts
from interlock.wire.errors import Fault

MAX_STREAMS: Final = 10_000


class OpenStream(Protocol):
    """One stream."""

    principal: Principal
    owner: str
    since: datetime

    def end(self, reason: str) -> None:
        """End the stream with a result, as the specification requires."""


class OpenStreams:
    """The streams of one hub."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._owners: OpenCounts[str] = OpenCounts()
        self._per_owner = 0

    def __iter__(self) -> Iterator[OpenStream]:
        return iter(list(self._streams))

    def __len__(self) -> int:
        return len(self._streams)

    def bound(self, per_owner: int) -> None:
        """Set how many streams every owner may have. Open streams stay open."""
        self._per_owner = per_owner

    def check(self, owner: str) -> None:
        """Whether an owner may open one more. Raises RESOURCE_EXHAUSTED."""
        if self._owners[owner] >= self._per_owner:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                f"{self._per_owner} streams of this principal are open",
                hint="close some of them first; one stream can listen for everything",
                retry_after_ms=5000,
            )
        if len(self._streams) >= MAX_STREAMS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams are open", retry_after_ms=5000)

    def add(self, stream: OpenStream) -> None:
        """A stream opens."""
        self._streams.add(stream)
        self._owners.add(stream.owner)

    def discard(self, stream: OpenStream) -> None:
        """A stream has ended."""
        if stream in self._streams:
            self._streams.remove(stream)
            self._owners.add(stream.owner, -1)

    def of(self, owner: str) -> list[OpenStream]:
        """The streams of an owner."""
        return [stream for stream in self._streams if stream.owner == owner] if owner in self._owners else []
