"""Turns failures of the store into errors for clients: retry later, or fix the store first."""

from __future__ import annotations

from typing import Final

from interlock.store import Conflict, NotRecorded, StoreBusy, StoreError, StoreFull, StoreUnavailable
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 1000


def fault_of(cause: StoreError) -> Fault:
    """The error for a failure of the store."""
    if isinstance(cause, NotRecorded | StoreBusy | StoreFull | StoreUnavailable | Conflict):
        return Fault("RESOURCE_EXHAUSTED", cause.message, hint=cause.hint, retry_after_ms=RETRY_AFTER_MS)
    return Fault("INTERNAL_ERROR", cause.message, hint=cause.hint)
