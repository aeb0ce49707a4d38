"""When a failed request may be sent again (MGP, Client Retry Behavior). Pure: the caller brings clock and chance."""

from __future__ import annotations

from typing import Final

from interlock.protocols.mgp.errors import RecoveryFields

FIRST_PAUSE_MS: Final = 500.0
"""The first pause where an error does not say how long to wait."""
MAX_PAUSE_MS: Final = 30_000.0
MAX_RETRIES_PER_CALL: Final = 5
"""Retries of one call, however many an error allows."""
USUAL_RETRIES: Final = 3
JITTER: Final = 0.25
"""Pauses are made longer by up to this part, so that those who failed together do not come back together. Never
shorter: the error names the least."""


def pause_s(recovery: RecoveryFields, tried: int, chance: float) -> float | None:
    """Seconds before retry number `tried` + 1, with `chance` from 0 to 1; None when there is to be none."""
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
            # An unknown strategy is answered with the gentlest.
            pause = (least or FIRST_PAUSE_MS) * 2.0**tried
    jittered = pause * (1 + JITTER * chance)
    if least is not None and least > MAX_PAUSE_MS:
        return None
    return min(jittered, MAX_PAUSE_MS) / 1000


def most_retries(recovery: RecoveryFields) -> int:
    """How often, at most."""
    retries = USUAL_RETRIES if recovery.max_retries is None else recovery.max_retries
    return max(0, min(retries, MAX_RETRIES_PER_CALL))
