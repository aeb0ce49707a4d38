"""Why the recorder refuses: the audit log cannot be written, or too many entries wait for it."""

from __future__ import annotations

from interlock.store import NotRecorded, StoreError
from interlock.wire.errors import Fault


def cannot_record(cause: StoreError | None) -> Fault:
    """The refusal of a call; without a cause, because the queue is full."""
    if cause is None:
        return Fault("RESOURCE_EXHAUSTED", "too many entries wait for the audit log", retry_after_ms=100)
    message = f"the hub makes no call while it cannot write the audit log: {cause.message}"
    return Fault("RESOURCE_EXHAUSTED", message, hint=cause.hint, retry_after_ms=1000)


def not_recorded(cause: StoreError | None) -> NotRecorded:
    """The refusal of a change, for the same reasons."""
    why, hint = ("too many entries wait", "") if cause is None else (cause.message, cause.hint)
    return NotRecorded(f"the hub changes nothing while it cannot write the audit log: {why}", hint)
