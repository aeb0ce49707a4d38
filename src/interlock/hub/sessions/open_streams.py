"""The open `subscriptions/listen` streams (stateless era): bounded in number, and per principal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

from interlock.hub.auth.principals import Principal
from interlock.process.open_counts import OpenCounts
from interlock.wire.errors import Fault

MAX_STREAMS: Final = 10_000


class OpenStream(Protocol):
    """An open stream that an operator can list and end."""

    principal: Principal
    principal_name: str
    since: datetime

    def end(self, reason: str) -> None:
        """End the stream with a result, as the specification requires."""


class OpenStreams:
    """The streams of one hub."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._by_principal: OpenCounts[str] = OpenCounts()
        self._per_principal = 0

    def __iter__(self) -> Iterator[OpenStream]:
        return iter(list(self._streams))

    def __len__(self) -> int:
        return len(self._streams)

    def bound(self, per_principal: int) -> None:
        """Set how many streams every principal may have. Open streams stay open."""
        self._per_principal = per_principal

    def check(self, principal_name: str) -> None:
        """Whether a principal may open one more. Raises RESOURCE_EXHAUSTED."""
        if self._by_principal[principal_name] >= self._per_principal:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                f"{self._per_principal} streams of this principal are open",
                hint="close some of them first; one stream can listen for everything",
                retry_after_ms=5000,
            )
        if len(self._streams) >= MAX_STREAMS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams are open", retry_after_ms=5000)

    def add(self, stream: OpenStream) -> None:
        """Count a stream that opened, after `check`."""
        self._streams.add(stream)
        self._by_principal.add(stream.principal_name)

    def discard(self, stream: OpenStream) -> None:
        """Count a stream no more. One that was never added is ignored."""
        if stream in self._streams:
            self._streams.remove(stream)
            self._by_principal.add(stream.principal_name, -1)

    def of(self, principal_name: str) -> list[OpenStream]:
        """The streams of a principal."""
        return (
            [stream for stream in self._streams if stream.principal_name == principal_name]
            if principal_name in self._by_principal
            else []
        )
