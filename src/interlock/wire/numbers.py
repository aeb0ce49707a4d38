"""Finds numbers in JSON that no double can hold, such as `1e999`.

A decoder fails at such a number, so the hub checks texts here that it passes on without decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

SMALL: Final = 4 * 1024
"""Reading a text of this size costs less than searching it."""
READ: Final = 64 * 1024
"""A longer text is never read as a whole: that would take long."""
_MAX_DOUBLES: Final = (b"1.7976931348623157e308", b"1.7976931348623157e+308")
"""Schemas name the largest double."""


def has_unreadable_numbers(data: bytes) -> bool:
    """Whether a reader would fail at a number. The bytes are JSON already, and not nested deeply.

    In a text over `READ` bytes a number has less than 200 digits in a row and an exponent of at most two, but for the
    largest double.
    """
    if len(data) > SMALL and _suspect()(data) is None:
        return False
    if len(data) > READ:
        for largest in _MAX_DOUBLES:
            data = data.replace(largest, b"0")
        return _suspect()(data) is not None
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return True
    return False


@lru_cache(maxsize=1)
def _suspect() -> Callable[[bytes], object]:
    """A matcher of JSON with a long number, or a large exponent, outside of its strings."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    regex = rb'(?:[^"]|"(?:[^"\\]|\\.)*")*(?:[eE]\+?[0-9]{3}|[0-9]{200})'
    matcher: Callable[[bytes], object] = re2.compile(regex, options).match
    return matcher
