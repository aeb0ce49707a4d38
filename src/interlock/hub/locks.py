"""Acquires a lock within a time limit. A request that waits too long gets RESOURCE_EXHAUSTED."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 500


@contextlib.asynccontextmanager
async def acquire(lock: asyncio.Lock, within_s: float | None, what: str) -> AsyncIterator[None]:
    """Hold a lock. Raises RESOURCE_EXHAUSTED after `within_s` seconds; None waits without limit."""
    try:
        async with asyncio.timeout(within_s):
            await lock.acquire()
    except TimeoutError:
        waited = round((within_s or 0) * 1000)
        raise Fault(
            "RESOURCE_EXHAUSTED",
            f"overloaded: waited {waited} ms for {what}",
            hint="repeat the request later; the operator can raise `lock_s`",
            retry_after_ms=RETRY_AFTER_MS,
            data={"timeout_ms": waited, "timeout": "lock"},
        ) from None
    try:
        yield
    finally:
        lock.release()
