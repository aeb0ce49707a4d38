"""Errors for the person who runs the hub."""

from __future__ import annotations


class ExplainedError(Exception):
    """One sentence that says what is wrong, and how to fix it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
