"""What whoever asked is told when the store failed: whether to come again, or to have it mended first."""

from __future__ import annotations

from typing import Final

from interlock.store import Conflict, NotRecorded, StoreBusy, StoreError, StoreFull, StoreUnavailable
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 1000


def fault_of(cause: StoreError) -> Fault:
    """A failure of the store as a refusal."""
    if isinstance(cause, NotRecorded | StoreBusy | StoreFull | StoreUnavailable | Conflict):
        return Fault("RESOURCE_EXHAUSTED", cause.message, hint=cause.hint, retry_after_ms=RETRY_AFTER_MS)
    return Fault("INTERNAL_ERROR", cause.message, hint=cause.hint)
