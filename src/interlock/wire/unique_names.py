"""The member names of one JSON object, as every JSON reader reads them: without escapes, and none of them twice.

The object is known to be JSON. The time is bounded: an object with very many names is compared as a whole.
"""

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


class DuplicateName(ValueError):
    """An object has a duplicate name, or too many names to check."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def names_of(payload: bytes, beside: int) -> list[str]:
    """The names of an object, in their order. Raises `DuplicateName`.

    `beside` is how many of its bytes are not part of values that were read already: a bound for the names there are.
    """
    if len(payload) > LARGE and beside > MAX_BESIDE and payload.count(b'"') > MAX_QUOTES:
        raise DuplicateName(f"an object has too many members: {beside} bytes of them are of no known kind")
    values = _decode(payload)
    if len(values) <= MAX_NAMES:
        return unique_names(payload, values)
    # A second member of the same name, or a name with escapes, makes the object longer than its values by name.
    if len(_compact(payload)) == len(_compact(_encode(values))):
        return list(values)
    raise DuplicateName(f"an object of {len(values)} members has a member twice, or escapes in their names")


def unique_names(payload: bytes, values: dict[str, msgspec.Raw]) -> list[str]:
    """The names of an object that was decoded to these values. Raises `DuplicateName`.

    Decoding keeps the last value of a duplicate name, so the walk over names and values finds another one first.
    """
    names: dict[str, None] = {}
    place = 0
    while (found := _NAME.match(payload, place)) is not None:
        name = _decode_name(found[1])
        value = bytes(values[name])
        place = found.end()
        if name in names or not payload.startswith(value, place) or payload[place + len(value)] not in _AFTER:
            raise DuplicateName(f"duplicate member {name[:100]!r}", name)
        place += len(value)
        names[name] = None
    return list(names)


_compact = partial(msgspec.json.format, indent=-1)
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode_name = msgspec.json.Decoder(str).decode
# Many characters at a time, and no way back: a name may have 64 KB.
_NAME = re.compile(rb'[ \t\r\n,{]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_AFTER = frozenset(b",} \t\r\n")
