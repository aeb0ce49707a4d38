"""The headers of one request while they come in. Repeated headers are combined or refused; their number is bounded."""

from __future__ import annotations

from typing import Final

from interlock.transports.http.server import guard
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.http.server.listener import HttpListener

_FEW_HEADERS: Final = 32


class IncomingHeaders:
    """The headers so far, names in lower case."""

    __slots__ = ("_listener", "_max_headers", "_repeats", "values")

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._max_headers = listener.bounds.header_count
        self._repeats = 0
        self.values: dict[bytes, bytes] = {}

    def add(self, name: bytes, value: bytes) -> GuardRefusal | None:
        """Add one header, or refuse the request."""
        values = self.values
        if len(values) + self._repeats > self._max_headers:
            return GuardRefusal(431, f"more than {self._max_headers} headers", "TOO_LARGE")
        name = name.lower()
        # The parser leaves the space after a value, which is no part of it (RFC 9110, Field Values).
        value = value.rstrip(b" \t")
        if name not in values:
            values[name] = value
            return None
        self._repeats += 1
        combined = guard.combine(name, values[name], value)
        if combined is None:
            return GuardRefusal(400, f"duplicate header {name.decode('latin-1')[:64]}")
        if self._repeats <= self._max_headers:
            values[name] = combined
        return None

    def check(self, method: bytes, target: bytes, version: str, *, fits: bool) -> GuardRefusal | None:
        """Check the whole head. `fits`: its bytes were counted, and are within the bound."""
        listener = self._listener
        refusal = guard.check_head(method, self.values, version, listener.allowed, listener.limits.message_bytes)
        if refusal is None and (not fits or len(self.values) + self._repeats > _FEW_HEADERS):
            refusal = guard.check_size(self.values, self._repeats, listener.bounds, target)
        return refusal
