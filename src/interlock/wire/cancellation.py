"""`notifications/cancelled`: which request is withdrawn, and why. The reason of one side reaches the other."""

from __future__ import annotations

import msgspec

from interlock.wire.messages import Id


class Reason(str):
    """Why a request is withdrawn: its words, and the `_meta` beside them.

    It is a text, since nearly everyone on its way wants no more of it.
    """

    __slots__ = ("meta",)
    meta: bytes

    def __new__(cls, words: str = "", meta: bytes = b"") -> Reason:
        """The words, with an encoded object or nothing."""
        made = super().__new__(cls, words)
        made.meta = meta
        return made


def read_withdrawal(params: bytes) -> tuple[Id, Reason]:
    """The request that is withdrawn, and why. Raises msgspec.DecodeError."""
    withdrawal = _decode(params)
    meta = bytes(withdrawal.meta)
    return withdrawal.requestId, Reason(withdrawal.reason, meta if meta.startswith(b"{") else b"")


def withdrawal(id: Id, reason: str) -> bytes:
    """The params that withdraw a request, with nothing that was not said."""
    params: dict[str, object] = {"requestId": id}
    if reason:
        params["reason"] = str(reason)
    if isinstance(reason, Reason) and reason.meta:
        params["_meta"] = msgspec.Raw(reason.meta)
    return msgspec.json.encode(params)


class _Cancelled(msgspec.Struct):
    requestId: Id
    reason: str = ""
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


_decode = msgspec.json.Decoder(_Cancelled).decode
