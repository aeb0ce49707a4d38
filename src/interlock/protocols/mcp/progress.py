"""Progress notifications: reads their number, and replaces their token by that of the receiver's request.

(2025-11-25 and 2026-07-28, Progress: "The progress value MUST increase with each notification".)
"""

from __future__ import annotations

import msgspec

from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members
from interlock.wire.messages import Id


class _Progress(msgspec.Struct):
    progress: float


_decode = msgspec.json.Decoder(_Progress).decode


def how_far(params: bytes) -> float | None:
    """The progress of a notification; None if it is not a number."""
    try:
        return _decode(params).progress
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def with_token(params: bytes, token: Id) -> bytes:
    """The notification's params with another token."""
    return msgspec.json.encode({**members(params), PROGRESS_TOKEN: token})
