"""Reads one long text of a large message, `PIECE_BYTES` at a time.

No piece ends inside an escape, a pair of escapes (a surrogate pair) or a character.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.large import PIECE_BYTES
from interlock.wire.large_pieces import MAX_NAME_BYTES, mask, no_json, refusal


class CutString(str):
    """The beginning of a string that was too long to keep."""


class LongText(msgspec.Struct, frozen=True):
    """A text that was read."""

    value: str
    """The whole text, or a `CutString`."""
    written: list[bytes]
    """The text with its quotes, without needless escapes, in pieces."""
    stop: int
    """Where the bytes behind it begin."""


def read_text(data: bytes, start: int, *, keep: bool) -> LongText:
    """Read the text whose first quote is at `start`. Unless it is kept, a long one becomes a `CutString`."""
    values, written, pos = list[str](), [b'"'], start + 1
    while True:
        stop, ends = _end_of_piece(data, pos)
        piece = data[pos:stop]
        try:
            value = _decode_text(b'"%b"' % piece)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise refusal(cause) from None
        written.append(piece if b"\\" not in piece else _encode(value)[1:-1])
        if keep or not values:
            values.append(value)
        pos = stop
        if ends:
            break
        if not keep:
            values = [CutString(values[0][:MAX_NAME_BYTES])]
    written.append(b'"')
    return LongText(values[0] if len(values) == 1 else "".join(values), written, pos + 1)


def _end_of_piece(data: bytes, pos: int) -> tuple[int, bool]:
    """Where a piece of a text ends, and whether the text ends there."""
    masked = mask(data[pos : pos + PIECE_BYTES])
    if (found := masked.find(b'"')) >= 0:
        return pos + found, True
    if pos + PIECE_BYTES >= len(data):
        raise no_json("a text does not end")
    stop = PIECE_BYTES
    if (escape := masked.rfind(b"\\", stop - _ESCAPE)) >= 0:
        is_pair = masked[escape - _ESCAPE : escape - 2].lower() in _FIRST_OF_PAIR
        stop = escape - _ESCAPE if is_pair else escape
    while stop > PIECE_BYTES - 2 * _ESCAPE and data[pos + stop] & 0xC0 == 0x80:
        stop -= 1
    return pos + stop, False


_ESCAPE: Final = len("\\ud83d")
_FIRST_OF_PAIR: Final = (rb"\ud8", rb"\ud9", rb"\uda", rb"\udb")
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode
