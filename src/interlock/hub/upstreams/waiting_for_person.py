"""Logins and links that wait for a person: bounded, and each forgotten after ten minutes.

An entry is known by a secret that nobody can guess. One that ended is known for the rest of its time, for those who
wait for it, and gives its place where all places are taken.
"""

from __future__ import annotations

import time
from typing import Final, Generic, Protocol, TypeVar

from interlock.wire.errors import Fault

VALID_S: Final = 600.0
MAX_PENDING: Final = 256


class WaitingEntry(Protocol):
    """Something that waits."""

    @property
    def until(self) -> float:
        """The machine's clock at which it is forgotten."""

    @property
    def ended(self) -> bool:
        """Whether it waits no longer."""


T = TypeVar("T", bound=WaitingEntry)


class WaitingForPerson(Generic[T]):
    """Entries of one kind, by their secrets."""

    def __init__(self) -> None:
        self._entries: dict[str, T] = {}

    def add(self, secret: str, entry: T) -> None:
        """Keep an entry. Raises RESOURCE_EXHAUSTED."""
        self._forget_old()
        if len(self._entries) >= MAX_PENDING:
            self._entries = {name: one for name, one in self._entries.items() if not one.ended}
        if len(self._entries) >= MAX_PENDING:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_PENDING} logins wait for a person", retry_after_ms=60_000)
        self._entries[secret] = entry

    def get(self, secret: str) -> T | None:
        """The entry of a secret; None for one that is unknown or too old."""
        self._forget_old()
        return self._entries.get(secret)

    def pop(self, secret: str) -> T | None:
        """The entry of a secret, which is good no longer."""
        self._forget_old()
        return self._entries.pop(secret, None)

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._entries = {secret: entry for secret, entry in self._entries.items() if entry.until > now}
