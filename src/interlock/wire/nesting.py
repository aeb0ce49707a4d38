"""How deeply JSON is nested, and how many members it has, found by few native calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

_ATOM = r'[^"\[\]{}]|"(?:[^"\\]|\\.)*"'


def nested_deeper(data: bytes, levels: int) -> bool:
    """Whether arrays and objects are nested deeper than `levels`. The bytes must be JSON."""
    if data.count(b"{") + data.count(b"[") <= levels:
        return False
    return _within(levels)(data) is None


def has_more_members(data: bytes, most: int) -> bool:
    """Whether there are more object members and array items than that. The bytes are JSON already."""
    if _possible_members(data) <= most:
        return False
    # Without escapes every second piece between quotes is outside of the strings.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    return _possible_members(b"".join(plain.split(b'"')[::2])) > most


def _possible_members(data: bytes) -> int:
    """Each array and object has one member more than commas, unless it is empty."""
    return data.count(b",") + data.count(b"{") + data.count(b"[")


@lru_cache(maxsize=8)
def _within(levels: int) -> Callable[[bytes], object]:
    """A matcher of JSON that is nested no deeper: each level is the one below it, in brackets of either shape."""
    import re2

    regex = f"(?:{_ATOM})*"
    for _ in range(levels):
        regex = rf"(?:{_ATOM}|[\[{{]{regex}[\]}}])*"
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    matcher: Callable[[bytes], object] = re2.compile(regex.encode(), options).fullmatch
    return matcher
