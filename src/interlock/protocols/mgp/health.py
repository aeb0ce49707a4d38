"""MGP's health messages: the three statuses, and the results of `mgp/health/ping` and `mgp/health/status`.

The members of `resources` and `checks` are not specified, so no code depends on them (MGP, Health Check Protocol).
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Final

import msgspec

from interlock.wire.json_values import decode_json

PING: Final = "mgp/health/ping"
STATUS: Final = "mgp/health/status"
HUB: Final = "interlock"
"""The `server_id` of the hub itself."""
PING_S: Final = 5.0
"""A server must answer a ping within this time."""


class Health(enum.Enum):
    """The health of a server that answers. The state of a server says whether it answers."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


_ORDER: Final = tuple(Health)
"""The best first."""


def worst(first: Health, *others: Health) -> Health:
    """The worst of some statuses."""
    return max((first, *others), key=_ORDER.index)


class PingResult(msgspec.Struct):
    """The result of `mgp/health/ping`."""

    status: Health
    timestamp: str = ""
    uptime_secs: int = 0
    server_id: str = ""


class HealthStatus(msgspec.Struct):
    """The result of `mgp/health/status`."""

    status: Health
    uptime_secs: int
    tools_available: int
    tools_total: int
    pending_requests: int
    resources: dict[str, Any] = {}
    checks: dict[str, Any] = {}


def timestamp(at: datetime) -> str:
    """A time in MGP's form: UTC with milliseconds."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def read_ping(result: bytes) -> str:
    """The status in a server's answer. Raises UPSTREAM_ERROR for an answer without one."""
    return decode_json(result, _Answered, "UPSTREAM_ERROR", f"the answer to {PING} cannot be read").status


def health_of(status: object) -> Health:
    """The health for a server's status. An unknown status counts as degraded, because the server answers."""
    try:
        return Health(status)
    except ValueError:
        return Health.DEGRADED


class _Answered(msgspec.Struct):
    status: str
