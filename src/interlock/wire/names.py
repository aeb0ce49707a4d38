"""Member names of JSON objects, as every JSON reader reads them: without their escapes, and none of them twice."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import msgspec

from interlock.wire.large import LARGE

MAX_BESIDE: Final = 8 * 1024
"""Upper bound for the bytes beside known values of a large object with more than `MAX_QUOTES`."""
MAX_QUOTES: Final = 4_000
"""Upper bound for the quotation marks of such an object: it has at most half as many names."""
MAX_NAMES: Final = 2_000
"""Upper bound for names that are compared one by one, which takes a microsecond each."""

LINE_FEED, CARRIAGE_RETURN, BACKSLASH = b"\n\r\\"
"""As numbers: `in` finds a number at once, and for bytes it first raises and drops an error inside the interpreter."""

_compact = partial(msgspec.json.format, indent=-1)
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode_name = msgspec.json.Decoder(str).decode
_NAME = re.compile(rb'[ \t\r\n,{]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_AFTER = frozenset(b",} \t\r\n")


class TwiceNamed(ValueError):
    """An object has a duplicate name, or too many names to check."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def may_spell(payload: bytes, text: bytes) -> bool:
    """Whether JSON may hold this text in a name or a value, however it is escaped. False is certain.

    A letter has two spellings, itself and `\\u`; a slash has a third. `text` has neither quotes nor control characters.
    """
    if payload.find(text) >= 0:
        return True
    return BACKSLASH in payload and (payload.find(b"\\u") >= 0 or payload.find(b"\\/") >= 0)


def names_of(payload: bytes, beside: int) -> list[str]:
    """The names of an object that is known to be JSON, in their order. Raises `TwiceNamed`.

    `beside` is how many of its bytes are not part of values that were read already: a bound for the names there are.
    """
    if len(payload) > LARGE and beside > MAX_BESIDE and payload.count(b'"') > MAX_QUOTES:
        raise TwiceNamed(f"an object has too many members: {beside} bytes of them are of no known kind")
    values = _decode(payload)
    if len(values) > MAX_NAMES:
        # A second member of the same name, or a name with escapes, makes the object longer than its values by name.
        if len(_compact(payload)) == len(_compact(_encode(values))):
            return list(values)
        raise TwiceNamed(f"an object of {len(values)} members has a member twice, or escapes in their names")
    names: dict[str, None] = {}
    place = 0
    while (found := _NAME.match(payload, place)) is not None:
        name = _decode_name(found[1])
        value = bytes(values[name])
        place = found.end()
        # Decoding keeps the last value of a duplicate name, so the first one has another value here.
        if name in names or not payload.startswith(value, place) or payload[place + len(value)] not in _AFTER:
            raise TwiceNamed(f"duplicate member {name[:100]!r}", name)
        place += len(value)
        names[name] = None
    return list(names)
