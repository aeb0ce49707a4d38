"""Tickets for the hub's own user: a bearer token of `/ws` that is good once, for one topic, for a minute."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from interlock.hub.auth.principals import Principal

PREFIX: Final = "room-ticket-"
VALID_S: Final = 60.0
MAX_TICKETS: Final = 256


class Admission(NamedTuple):
    """The admission of a credential to a topic."""

    principal: Principal | None
    separate: bool = False
    """Whether it joins beside other connections of the same principal, under an id of its own."""


class Tickets:
    """The tickets that were not used yet. Only their hashes are kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[bytes, tuple[Admission, str, float]] = {}

    def make(self, admitted: Admission, topic: str) -> str:
        """Make a ticket. Beyond the bound, the oldest ticket becomes invalid."""
        text = PREFIX + secrets.token_urlsafe(32)
        while len(self._open) >= MAX_TICKETS:
            del self._open[next(iter(self._open))]
        self._open[_hash(text)] = admitted, topic, self._clock() + VALID_S
        return text

    def redeem(self, text: str, topic: str) -> Admission | None:
        """Use up a ticket. Returns its admission; None for any other text."""
        found = self._open.pop(_hash(text), None)
        if found is None or found[1] != topic or self._clock() >= found[2]:
            return None
        return found[0]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
