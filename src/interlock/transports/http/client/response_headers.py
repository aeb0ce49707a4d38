"""Reads the length of the body and the keep-alive time from the headers of a response."""

from __future__ import annotations

from typing import Final

IDLE_SECONDS: Final = 4.0
"""Shorter than the five seconds after which common servers close an idle connection."""


def body_length(headers: dict[bytes, bytes]) -> int:
    """The length of a response's body, where its head names it."""
    length = b"" if b"transfer-encoding" in headers else headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 19 else 0


def keep_alive_seconds(header: bytes) -> float:
    """How long a server keeps an idle connection by its own word, less a second for the network."""
    for part in header.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit() and len(value) < 6:
            return max(min(float(value) - 1.0, 60.0), 0.0)
    return IDLE_SECONDS
