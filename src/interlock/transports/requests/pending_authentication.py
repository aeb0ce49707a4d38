"""Raised while a caller is being authenticated. A request that can wait is handled again afterwards."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 1000


class AuthenticationPending(Fault):
    """Raised in place of admitting or refusing a caller. The awaited check ends by itself, and soon."""

    def __init__(self, message: str, settled: asyncio.Future[None]) -> None:
        super().__init__("SERVER_NOT_READY", message, retry_after_ms=RETRY_AFTER_MS)
        self.settled = settled
