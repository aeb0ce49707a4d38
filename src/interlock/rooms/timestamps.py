"""The `ts` of envelopes that the hub and the client library write (MCPx, Envelope)."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """The current time, to the millisecond. The reference gateway refuses envelopes without `ts`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
