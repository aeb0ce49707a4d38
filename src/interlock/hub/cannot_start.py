"""Why a hub does not start, in words for whoever started it."""

from __future__ import annotations


class CannotStart(Exception):
    """Something that a hub needs is not there. Nothing was started."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
