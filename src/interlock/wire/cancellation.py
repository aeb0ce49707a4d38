"""`notifications/cancelled`: which request is cancelled, and why. The hub passes the reason on."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.messages import Id

_MAX_EXACT: Final = 2**53
"""Whole numbers below it are exact as doubles."""


class CancelReason(str):
    """Why a request is cancelled: the `reason`, and the `_meta` beside it. Most code uses it as a plain string."""

    __slots__ = ("meta",)
    meta: bytes

    def __new__(cls, words: str = "", meta: bytes = b"") -> CancelReason:
        """Make a reason; `meta` is a JSON object, or empty."""
        made = super().__new__(cls, words)
        made.meta = meta
        return made


def read_withdrawal(params: bytes) -> tuple[Id, CancelReason]:
    """The id of the cancelled request, and the reason. Raises msgspec.DecodeError."""
    try:
        withdrawal = _decode(params)
    except JSON_ERRORS as cause:
        raise msgspec.DecodeError(str(cause)) from None
    meta = bytes(withdrawal.meta)
    return _id(withdrawal.requestId), CancelReason(withdrawal.reason, meta if meta.startswith(b"{") else b"")


def withdrawal(id: Id, reason: str) -> bytes:
    """The params of a cancellation. An empty reason is left out."""
    params: dict[str, object] = {"requestId": id}
    if reason:
        params["reason"] = str(reason)
    if isinstance(reason, CancelReason) and reason.meta:
        params["_meta"] = msgspec.Raw(reason.meta)
    return msgspec.json.encode(params)


def _id(named: Id | float) -> Id:
    """The id, which some peers write as a double: 5.0 is the number 5."""
    if not isinstance(named, float):
        return named
    if not named.is_integer() or abs(named) >= _MAX_EXACT:
        raise msgspec.ValidationError("an id is a whole number or a text")
    return int(named)


class _Cancelled(msgspec.Struct):
    requestId: Id | float
    reason: str = ""
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


_decode = msgspec.json.Decoder(_Cancelled).decode
