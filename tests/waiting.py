"""How a test waits for a state that no event announces: it asks again and again, and fails after two minutes.

Only for states that stay once they are there. The bound is by the machine's clock: some tests move the loop's clock.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")

PATIENCE_S = 120.0
_PAUSE_S = 0.01


async def until(condition: Callable[[], Value | Awaitable[Value]], within: float = PATIENCE_S) -> Value:
    """Wait until a condition holds, which may itself wait for an answer. Returns its value."""
    end = time.monotonic() + within
    while True:
        found = condition()
        value: Value = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]
        if value:
            return value
        assert time.monotonic() < end, f"{condition} did not come true, it is {value!r}"
        await asyncio.sleep(_PAUSE_S)


def block_until(condition: Callable[[], Value], within: float = PATIENCE_S) -> Value:
    """Like `until`, for tests without a loop."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"{condition} did not come true, it is {value!r}"
        time.sleep(_PAUSE_S)
    return value
