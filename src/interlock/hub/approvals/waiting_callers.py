"""Knows which open decisions a caller of this hub waits for, and which callers gave up.

A caller that was told to repeat its call later has not given up. Callers from before a restart, and callers of other
hubs on the store, are unknown here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class WaitingCallers:
    """The callers that wait at one hub."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._gone: set[str] = set()

    @contextmanager
    def wait(self, id: str) -> Iterator[None]:
        """Count a caller while it waits for a decision. A cancelled wait means that the caller gave up."""
        self._gone.discard(id)
        self._waiting[id] += 1
        cancelled = False
        try:
            yield
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            self._waiting[id] -= 1
            if not self._waiting[id]:
                del self._waiting[id]
                if cancelled:
                    self._gone.add(id)

    def has_gone(self, id: str) -> bool:
        """Whether the last caller that waited for the decision gave up."""
        return id in self._gone

    def forget(self, id: str) -> None:
        """Forget the callers of a decision that is no longer open."""
        self._gone.discard(id)
