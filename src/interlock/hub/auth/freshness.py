"""Whether the hub knows the current keys, grants and rules.

Another hub of the same store may revoke a key at any time. While the store has not answered for longer than
`limits.store_behind_s`, the hub refuses every request instead of trusting what it read before.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from interlock.store import Store
from interlock.store.feed import now_s
from interlock.wire.errors import Fault

CHECK_S: Final = 0.25
"""How often the hub looks whether its knowledge became stale or current."""
STOOD_STILL_S: Final = 1.0
"""A hub that did not look for this long was too busy to read from its database."""


class AccessFreshness:
    """The age of what the hub knows about access."""

    def __init__(self, limit_s: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._store: Store | None = None
        self._on_change: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None
        self.is_stale = False
        self._checked_at = 0.0
        self.known_until = float(sys.maxsize)
        """Up to this time of `now_s`, the hub knows every change as of `store_behind_s` before. May be too early."""

    def start(self, store: Store, on_change: Callable[[], None]) -> None:
        """Watch a store. `on_change` is called when its knowledge becomes stale, and when it is current again."""
        self._store, self._on_change = store, on_change
        self._check()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def refusal(self) -> Fault | None:
        """The fault for every request while the knowledge is stale."""
        store, limit = self._store, self._limit_s()
        if store is None or store.behind_s() <= limit:
            return None
        message = "the hub cannot know which keys and grants are valid: "
        if now_s() - self._checked_at > STOOD_STILL_S:
            message += f"it was too busy to read its database for {limit:g} s"
            hint = "try again; the hub continues by itself"
        else:
            message += f"its database has not answered for {limit:g} s"
            hint = "check that the database can be reached; the hub then continues by itself"
        return Fault("SERVER_NOT_READY", message, hint=hint, retry_after_ms=1000)

    def demand(self) -> None:
        """Raises SERVER_NOT_READY while the knowledge is stale. Up to `known_until` it is not."""
        if now_s() > self.known_until and (fault := self.refusal()) is not None:
            raise fault

    def _check(self) -> None:
        store = self._store
        assert store is not None
        self._checked_at = now_s()
        stale = store.behind_s() > self._limit_s()
        self.known_until = now_s() - store.behind_s() + self._limit_s()
        if stale != self.is_stale:
            self.is_stale = stale
            self._on_change()
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)
