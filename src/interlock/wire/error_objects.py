"""The error member of an answer: read from a peer, and written so that every peer can read it."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import ErrorObject
from interlock.wire.names import CARRIAGE_RETURN, LINE_FEED

_INTERNAL: Final = -32603


def decode_error(raw: msgspec.Raw) -> ErrorObject:
    """The error of an answer. A code over 32 bits, which some clients cannot read, becomes that of an internal error.
    Bytes that are not UTF-8 are replaced. Raises msgspec.DecodeError."""
    text = _in_utf8(bytes(raw))
    try:
        error = _decode(text)
    except msgspec.DecodeError:
        unusual = _decode_unusual(text)
        return ErrorObject(_INTERNAL, unusual.message, *((unusual.data,) if bytes(unusual.data) else ()))
    if not -(2**31) <= error.code < 2**31:
        error.code = _INTERNAL
    return error


def encode_error(error: ErrorObject) -> bytes:
    """An error as one line of UTF-8. A line that is not UTF-8 would end the client's stream."""
    try:
        encoded = _in_utf8(_encode(error))
    except UnicodeEncodeError:
        message = error.message.encode("utf-8", "replace").decode()
        encoded = _in_utf8(_encode(ErrorObject(error.code, message, error.data)))
    if LINE_FEED in encoded or CARRIAGE_RETURN in encoded:
        return msgspec.json.format(encoded, indent=-1)
    return encoded


def _in_utf8(text: bytes) -> bytes:
    return text if text.isascii() else text.decode("utf-8", "replace").encode()


class _UnusualError(msgspec.Struct):
    """An error whose code is not a number of 32 bits."""

    code: float
    message: str
    data: msgspec.Raw = msgspec.Raw(b"")


_decode = msgspec.json.Decoder(ErrorObject).decode
_decode_unusual = msgspec.json.Decoder(_UnusualError).decode
_encode = msgspec.json.Encoder().encode
