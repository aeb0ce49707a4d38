"""Which open decisions a caller of this hub waits for, and whose caller gave up.

A caller that was told to repeat its call later has not given up. After a restart, and for callers of another hub of
the store, nothing is known.
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
        """Count a caller of a decision while it waits. A wait that is cancelled is of a caller that has gone."""
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
        """Keep nothing of a decision that is no longer open."""
        self._gone.discard(id)
