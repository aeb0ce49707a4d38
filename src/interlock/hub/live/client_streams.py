"""Streams that clients of the stateless era opened for messages of servers (MCPL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcpl.live import DELIVERY, LiveFilter
from interlock.wire.errors import Fault

MAX_STREAMS: Final = 8
"""Streams of one client."""

Notify = Callable[[str, bytes], None]


class ClientStreams:
    """The open streams, by the key of their client."""

    def __init__(self) -> None:
        self._open: dict[str, dict[object, tuple[LiveFilter, Notify]]] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._open

    def check_quota(self, client: str) -> None:
        """Raise RESOURCE_EXHAUSTED for a client that may open no further stream."""
        if len(self._open.get(client, {})) >= MAX_STREAMS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams for messages of servers are open")

    def open(self, client: str, stream: object, wanted: LiveFilter, notify: Notify) -> None:
        """Send messages on a stream that was acknowledged."""
        self._open.setdefault(client, {})[stream] = (wanted, notify)

    def close(self, client: str, stream: object) -> None:
        """A stream is over."""
        streams = self._open.get(client, {})
        streams.pop(stream, None)
        if not streams:
            self._open.pop(client, None)

    def listens(self, client: str, method: str, feature: str | None) -> bool:
        """Whether a stream of the client takes such a message."""
        return any(wanted.wants(method, feature) for wanted, _ in self._open.get(client, {}).values())

    def deliver(self, owner: str, method: str, feature: str | None, params: bytes, id: str | None) -> bool:
        """Send a message on a stream of a client; with an id it is a request. False if no stream takes it."""
        for wanted, notify in self._open.get(owner, {}).values():
            if wanted.wants(method, feature):
                named = {} if id is None else {"id": id}
                notify(DELIVERY, msgspec.json.encode({"method": method, "params": msgspec.Raw(params), **named}))
                return True
        return False
