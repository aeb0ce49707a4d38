"""Requests that a server sends while its connection is still being opened."""

from __future__ import annotations

from typing import Final

from interlock.wire.messages import Request

MOST_EARLY: Final = 16
"""Upper bound for the requests of one connection that are kept."""


class EarlyRequests:
    """Keeps requests until the connection on which they are answered is known."""

    def __init__(self) -> None:
        self._kept: list[Request] = []

    def keep(self, request: Request) -> None:
        """Keep a request, unless the bound is reached."""
        if len(self._kept) < MOST_EARLY:
            self._kept.append(request)

    def take(self) -> list[Request]:
        """The requests that were kept. They are kept no longer."""
        kept, self._kept = self._kept, []
        return kept
