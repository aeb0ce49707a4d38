"""Streams that clients of the stateless era opened for messages of servers (MCPL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcpl.live import DELIVERY, LiveFilter
from interlock.wire.errors import Fault

MAX_STREAMS: Final = 8
"""Streams of one client."""
SEPARATOR: Final = "\x1f"
"""Separates the client from the offer in the key of a host. A client has a host for each of its offers."""

Notify = Callable[[str, bytes], None]


class ClientStreams:
    """The open streams, by the key of their host."""

    def __init__(self) -> None:
        self._open: dict[str, dict[object, tuple[LiveFilter, Notify]]] = {}
        self._hosts: dict[object, str] = {}
        """By stream."""

    def __contains__(self, host: object) -> bool:
        return host in self._open

    def check_quota(self, client: str) -> None:
        """Raise RESOURCE_EXHAUSTED for a client that may open no further stream."""
        mine = [streams for host, streams in self._open.items() if host.startswith(client + SEPARATOR)]
        if sum(map(len, mine)) >= MAX_STREAMS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams for messages of servers are open")

    def open(self, host: str, stream: object, wanted: LiveFilter, notify: Notify) -> None:
        """Use an acknowledged stream for messages."""
        self._hosts[stream] = host
        self._open.setdefault(host, {})[stream] = (wanted, notify)

    def close(self, stream: object) -> None:
        """Forget a closed stream."""
        host = self._hosts.pop(stream, "")
        streams = self._open.get(host, {})
        streams.pop(stream, None)
        if not streams:
            self._open.pop(host, None)

    def listens(self, host: str, method: str, feature: str | None) -> bool:
        """Whether a stream of the host takes such a message."""
        return any(wanted.wants(method, feature) for wanted, _ in self._open.get(host, {}).values())

    def deliver(
        self, principal_name: str, method: str, feature: str | None, params: bytes, id: str | None
    ) -> object | None:
        """Send a message on the host's newest stream that takes it. Returns the stream. With an id it is a request."""
        for stream, (wanted, notify) in reversed(self._open.get(principal_name, {}).items()):
            if wanted.wants(method, feature):
                named = {} if id is None else {"id": id}
                notify(DELIVERY, msgspec.json.encode({"method": method, "params": msgspec.Raw(params), **named}))
                return stream
        return None
