"""MGP's lifecycle messages: `mgp/lifecycle/shutdown` and `notifications/mgp.lifecycle` (MGP, Graceful Shutdown)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from interlock.wire.json_values import decode_json_or

SHUTDOWN: Final = "mgp/lifecycle/shutdown"
CHANGED: Final = "notifications/mgp.lifecycle"
DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_TIMEOUT_MS: Final = 3_600_000
MAX_PENDING: Final = 1_000_000_000

ShutdownReason = Literal[
    "operator_request", "configuration_change", "resource_limit", "idle_timeout", "kernel_shutdown"
]


class ShutdownParams(msgspec.Struct):
    """The params of `mgp/lifecycle/shutdown`."""

    reason: ShutdownReason = "operator_request"
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=MAX_TIMEOUT_MS)] = DEFAULT_TIMEOUT_MS


class ShutdownAccepted(msgspec.Struct):
    """The result of `mgp/lifecycle/shutdown`."""

    accepted: bool
    pending_requests: Annotated[int, msgspec.Meta(ge=0, le=MAX_PENDING)] = 0
    estimated_drain_ms: Annotated[int, msgspec.Meta(ge=0, le=MAX_TIMEOUT_MS)] = 0


class StateChanged(msgspec.Struct):
    """The params of `notifications/mgp.lifecycle`."""

    server_id: str
    previous_state: str
    new_state: str
    reason: str
    timestamp: str


def shutdown_answer(result: bytes) -> ShutdownAccepted | None:
    """A server's answer; None if it cannot be read."""
    return decode_json_or(result, ShutdownAccepted, None)


def estimated_drain_ms(pending: int, usual_ms: float, timeout_ms: int) -> int:
    """The expected duration of open requests: the usual one, at most the timeout. 0 without open requests."""
    if not pending:
        return 0
    return min(timeout_ms, int(usual_ms)) if usual_ms else timeout_ms
