"""The `ts` of envelopes that this side writes (MCPx, Envelope)."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Now, to the millisecond. The specification's own gateway takes no envelope without `ts`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
