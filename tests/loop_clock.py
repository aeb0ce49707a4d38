"""A clock that a test moves on, so that no test waits for a deadline and no deadline passes on a busy machine."""

from __future__ import annotations

import asyncio


def advance(seconds: float) -> None:
    """Move the running loop's clock on: timers within that time are due at once. Works on asyncio's own loop only."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
