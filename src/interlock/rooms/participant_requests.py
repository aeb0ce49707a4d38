"""The requests of a participant that wait for a response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.rooms.errors import RoomError


class ParticipantRequests:
    """Requests by envelope id. Each ends with a response, an error of the gateway, or its connection."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, asyncio.Future[Envelope]]] = {}

    @contextmanager
    def opened(self, id: str, kind: str) -> Iterator[asyncio.Future[Envelope]]:
        """Register a request that is sent inside this context. Yields the future of its response."""
        response: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting[id] = kind, response
        try:
            yield response
        finally:
            del self._waiting[id]

    def settle(self, envelope: Envelope) -> None:
        """End the request that an envelope answers or refuses."""
        _, waiting = self._waiting.get(envelope.correlation_id or self._refused(envelope), ("", None))
        if waiting is None or waiting.done():
            return
        if envelope.kind.type == kinds.RESPONSE:
            waiting.set_result(envelope)
        elif envelope.kind.type == kinds.ERROR:
            error = msgspec.json.decode(envelope.payload, type=system.ErrorPayload)
            waiting.set_exception(RoomError(error.error, error.message, error.fix or ""))

    def fail(self, error: RoomError) -> None:
        """End every request."""
        for _, waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    def _refused(self, envelope: Envelope) -> str:
        """The request that an error is about, by its kind: the specification does not require `correlation_id`."""
        if envelope.kind.type != kinds.ERROR:
            return ""
        attempted = msgspec.json.decode(envelope.payload, type=system.ErrorPayload).attempted_kind
        return next((id_ for id_, (kind, _) in self._waiting.items() if kind == attempted), "")
