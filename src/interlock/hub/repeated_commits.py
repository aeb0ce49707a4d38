"""Commits that build on a stored document which several hubs may change at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from interlock.store import Conflict, Store, Transaction

ATTEMPTS: Final = 16
"""To change documents that other hubs change meanwhile."""

R = TypeVar("R")


async def commit(store: Store, write: Callable[[Transaction], Awaitable[R]]) -> R:
    """Commit the changes that `write` makes. It runs again if another hub was first. Raises Conflict in the end."""
    for left in reversed(range(ATTEMPTS)):
        try:
            async with store.transaction() as change:
                result = await write(change)
        except Conflict:
            if not left:
                raise
        else:
            break
    return result
