"""Counts the protocol violations of a peer, and reports some of them to the operator."""

from __future__ import annotations

from collections import Counter
from typing import Final

from interlock.transports.link import Listener

SPELLED_OUT: Final = 20
"""Violations of one kind that are reported in full; after that, every thousandth is."""


class ViolationLog:
    """Counts and reports the violations of one peer."""

    __slots__ = ("_listener", "_source", "counts")

    def __init__(self, listener: Listener, source: str) -> None:
        self._listener = listener
        self._source = source
        self.counts: Counter[str] = Counter()

    def report(self, kind: str, text: str) -> None:
        """Count a violation. The first ones are reported in full, then every thousandth."""
        self.counts[kind] += 1
        count = self.counts[kind]
        if count <= SPELLED_OUT:
            self._listener.on_log(self._source, text)
        elif count % 1000 == 0:
            self._listener.on_log(self._source, f"({count} times) {text}")
