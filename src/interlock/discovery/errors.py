"""Errors for unusable input."""

from __future__ import annotations


class DiscoveryError(ValueError):
    """A query, filter, entry or budget that cannot be used; the message says which part and how to fix it."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part
