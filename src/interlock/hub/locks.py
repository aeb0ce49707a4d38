"""Locks of the hub's own, waited for no longer than a call may: whoever comes too late hears that it is overloaded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 500


@contextlib.asynccontextmanager
async def held(lock: asyncio.Lock, within_s: float | None, what: str) -> AsyncIterator[None]:
    """Hold a lock. Raises RESOURCE_EXHAUSTED when it could not be had in time; None waits as long as it takes."""
    try:
        async with asyncio.timeout(within_s):
            await lock.acquire()
    except TimeoutError:
        waited = round((within_s or 0) * 1000)
        raise Fault(
            "RESOURCE_EXHAUSTED",
            f"overloaded: waited {waited} ms for {what}",
            hint="repeat it later; the operator can raise `lock_s`",
            retry_after_ms=RETRY_AFTER_MS,
            data={"timeout_ms": waited, "timeout": "lock"},
        ) from None
    try:
        yield
    finally:
        lock.release()
