"""Errors for unusable input."""

from __future__ import annotations


class DiscoveryError(ValueError):
    """An unusable query, filter, entry or budget. The message says which part is wrong and how to fix it."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part
