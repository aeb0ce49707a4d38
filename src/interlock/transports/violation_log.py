"""What a peer did that it must not do: counted, and told to the operator a few times, not a million."""

from __future__ import annotations

from collections import Counter
from typing import Final

SPELLED_OUT: Final = 20
"""Complaints of one kind that are told in full; after that, every thousandth is."""


class ViolationLog:
    """One peer's."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, kind: str, text: str) -> str | None:
        """Count it. Gives what the operator should read, if anything."""
        self.counts[kind] += 1
        count = self.counts[kind]
        if count <= SPELLED_OUT:
            return text
        return f"({count} times) {text}" if count % 1000 == 0 else None
