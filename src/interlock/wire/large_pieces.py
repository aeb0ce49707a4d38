"""Splits one piece of a large message with native calls: its strings, the text outside them, its brackets.

A piece may begin and end inside arrays and objects, never inside a string. `decode_whole` checks that it is JSON, once
`large_reader.py` has put the arrays and objects around it.
"""

from __future__ import annotations

import json
import re
from itertools import compress
from typing import Any, Final

import msgspec

from interlock.wire.errors import Fault

MAX_NUMBER_CHARS: Final = 128
"""Upper bound for the characters of a number: the time to read one grows with the square of its digits."""
MAX_NAME_BYTES: Final = 1_024
"""Upper bound for the bytes of a member name, with its quotes."""


class UnreadableMessage(Fault):
    """A large message is invalid. `members` are the members of its envelope that were read before the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.members: dict[str, object] = {}

    def after(self, members: dict[str, object]) -> None:
        """Note the members that were read before the error."""
        self.members = members


class MessagePiece(msgspec.Struct, frozen=True):
    """A piece as it is passed on, and the facts that its skeleton gives."""

    written: bytes
    """The piece in compact form, without needless escapes."""
    skeleton: bytes
    """The piece without blanks, and with one quote in the place of each string."""
    names: set[bytes]
    """The names of members, masked."""

    @classmethod
    def of(cls, parts: list[bytes]) -> MessagePiece:
        """The piece that was split at its quotes. Raises `UnreadableMessage`."""
        outside, texts = b'"'.join(parts[::2]), parts[1::2]
        skeleton = outside.translate(None, _BLANK)
        if len(skeleton) < len(outside) and _TWO_SCALARS.search(outside):
            raise no_json("a comma is missing, or a blank is inside a value")
        if (found := skeleton.translate(_SCALARS).find(_LONG_SCALAR)) >= 0:
            if skeleton[found] not in _NUMBER_BEGINS:
                raise no_json("a value is none of JSON")
            raise UnreadableMessage("INVALID_REQUEST", f"a number is longer than {MAX_NUMBER_CHARS} characters")
        is_name = skeleton.translate(_IS_NAME, _NO_NAMES).replace(b"\0\1", b"\1")
        names = set(compress(texts, is_name))
        if names and max(map(len, names)) > MAX_NAME_BYTES - 2:
            raise UnreadableMessage("INVALID_REQUEST", f"the name of a member is longer than {MAX_NAME_BYTES} bytes")
        joined = _BETWEEN.join(texts)
        if b"\\" in joined or b"\0" in joined:
            texts = _plain(joined)
            names = set(compress(texts, is_name))
        elif len(skeleton) == len(outside):
            return cls(b'"'.join(parts), skeleton, names)
        parts = [b""] * len(parts)
        parts[::2], parts[1::2] = skeleton.split(b'"'), texts
        return cls(unmask(b'"'.join(parts)), skeleton, names)

    @property
    def members(self) -> int:
        """How many members and items it has at most: its commas, arrays and objects."""
        return self.skeleton.count(b",") + self.skeleton.count(b"{") + self.skeleton.count(b"[")

    @property
    def brackets(self) -> bytes:
        """The brackets alone."""
        return self.skeleton.translate(None, _NO_BRACKETS)


def split(text: bytes) -> list[bytes]:
    """The parts between the quotes, masked: every second one is a text. Raises `UnreadableMessage`."""
    if b"\0" in text:
        raise no_json("a control character")
    return mask(text).split(b'"')


def mask(text: bytes) -> bytes:
    """Replace escaped backslashes and quotes by bytes of the same length that JSON does not allow."""
    return text.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1") if b"\\" in text else text


def unmask(text: bytes) -> bytes:
    """Undo `mask`."""
    return text.replace(b"\0\1", b'\\"').replace(b"\0\0", b"\\\\") if b"\0" in text else text


def last_comma(parts: list[bytes]) -> tuple[int, int]:
    """The last comma outside of strings: its part, and its place in that part; (0, 0) if there is none."""
    for number in range((len(parts) - 1) & ~1, -1, -2):
        if (found := parts[number].rfind(b",")) >= 0:
            return number, found
    return 0, 0


def without_blanks(parts: list[bytes]) -> bytes:
    """The text of these parts, with each run of blanks cut to one."""
    parts[::2] = [_BLANKS.sub(b" ", part) for part in parts[::2]]
    return unmask(b'"'.join(parts))


def no_json(why: str) -> UnreadableMessage:
    """The refusal of bytes that are not JSON."""
    return UnreadableMessage("PARSE_ERROR", f"not JSON: {why}")


def duplicate(name: str) -> UnreadableMessage:
    """The refusal of a name that an object has twice."""
    return UnreadableMessage("INVALID_REQUEST", f"duplicate member {name[:100]!r}")


def refusal(cause: Exception) -> UnreadableMessage:
    """The refusal for an error of the decoder, which counts bytes from the beginning of a piece."""
    return no_json(_COUNTED.sub("", str(cause)))


def decode_whole(whole: bytes) -> Any:
    """The value of a piece, with the arrays and objects around it. Raises `UnreadableMessage` for duplicate names."""
    try:
        tree = _decode(whole)
    except (msgspec.DecodeError, ValueError) as cause:
        raise refusal(cause) from None
    # The same texts are written again, so that a member less is at least a colon less.
    if whole.count(b":") != _encode(tree).count(b":"):
        json.loads(whole, object_pairs_hook=_refuse_duplicates)
    return tree


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise duplicate(name)
        seen.add(name)


def _plain(joined: bytes) -> list[bytes]:
    """The strings without needless escapes."""
    try:
        texts = _decode_texts(b'["%b"]' % unmask(joined))
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise refusal(cause) from None
    return mask(_encode(texts)[2:-2]).split(_BETWEEN)


_BETWEEN: Final = b'","'
"""The bytes between two texts of an array. No text that is masked has a quote."""
_BLANK: Final = b" \t\r\n"
_BLANKS: Final = re.compile(rb"[ \t\r\n]++")
_SCALAR: Final = b"-+.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TWO_SCALARS: Final = re.compile(rb"[-+.0-9A-Za-z][ \t\r\n]++[-+.0-9A-Za-z]")
"""Without the blanks between them they would be one value."""
_SCALARS: Final = bytes.maketrans(_SCALAR, b"0" * len(_SCALAR))
_LONG_SCALAR: Final = b"0" * (MAX_NUMBER_CHARS + 1)
_NUMBER_BEGINS: Final = b"-0123456789"
_NO_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_NO_NAMES: Final = bytes(each for each in range(256) if each not in b'":')
_IS_NAME: Final = bytes.maketrans(b'":', b"\0\1")
"""A zero for each text, and a one behind it where it is a name."""
_COUNTED: Final = re.compile(r" \(byte [0-9]+\)$")
_decode: Final = msgspec.json.Decoder().decode
_decode_texts: Final = msgspec.json.Decoder(list[str]).decode
_encode: Final = msgspec.json.Encoder().encode
