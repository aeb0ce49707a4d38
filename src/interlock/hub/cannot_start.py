"""The reason why a hub does not start, for the person who starts it."""

from __future__ import annotations


class CannotStart(Exception):
    """The hub lacks something that it needs, and started nothing."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
