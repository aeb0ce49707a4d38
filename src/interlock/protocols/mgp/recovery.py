"""When a failed request may be sent again (MGP, Client Retry Behavior). Pure: callers pass time and random numbers."""

from __future__ import annotations

from typing import Final

from interlock.protocols.mgp.errors import RecoveryFields

FIRST_PAUSE_MS: Final = 500.0
"""The first pause where an error does not say how long to wait."""
MAX_PAUSE_MS: Final = 30_000.0
MAX_RETRIES_PER_CALL: Final = 5
"""Upper bound for the retries of one call, even if the error allows more."""
USUAL_RETRIES: Final = 3
JITTER: Final = 0.25
"""Pauses grow by up to this share, so that calls that failed together are not repeated together. They never shrink,
because the error names the shortest pause."""


def pause_s(recovery: RecoveryFields, tried: int, chance: float) -> float | None:
    """Seconds before retry number `tried` + 1, with the random number `chance` from 0 to 1; None for no retry."""
    if not recovery.retryable or tried >= most_retries(recovery):
        return None
    wait_ms = recovery.retry_after_ms
    least = max(0.0, wait_ms) if wait_ms is not None else None
    match recovery.retry_strategy:
        case "immediate":
            pause = least or 0.0
        case "fixed_delay":
            pause = FIRST_PAUSE_MS if least is None else least
        case _:
            # For an unknown strategy, use the one with the longest pauses.
            pause = (least or FIRST_PAUSE_MS) * 2.0**tried
    jittered = pause * (1 + JITTER * chance)
    if least is not None and least > MAX_PAUSE_MS:
        return None
    return min(jittered, MAX_PAUSE_MS) / 1000


def most_retries(recovery: RecoveryFields) -> int:
    """Upper bound for the number of retries."""
    retries = USUAL_RETRIES if recovery.max_retries is None else recovery.max_retries
    return max(0, min(retries, MAX_RETRIES_PER_CALL))
