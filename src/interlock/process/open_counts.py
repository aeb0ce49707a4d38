"""Counts of open work, such as requests or bytes, by peer. Bounds read them."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

K = TypeVar("K")


class OpenCounts(Counter[K]):
    """How much each key has open. A key without any is removed, so that earlier keys take no memory."""

    def add(self, key: K, amount: int = 1) -> None:
        """Add to the count of a key. A negative amount takes from it."""
        count = self[key] + amount
        if count:
            self[key] = count
        else:
            self.pop(key, None)
