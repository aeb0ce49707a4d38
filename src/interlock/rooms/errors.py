"""The error of the library for participants."""

from __future__ import annotations


class RoomError(Exception):
    """The gateway refused an envelope or a connection, or another participant answered with an error."""

    def __init__(self, reason: str, message: str, fix: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.fix = fix
