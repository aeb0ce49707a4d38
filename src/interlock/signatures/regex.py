"""Reads the structure of regular expressions as far as people write them in schemas.

It does not read look-around, back references and word boundaries: patterns with them have no structure here.
"""

from __future__ import annotations

import re
from typing import TypeAlias, TypeVar

import msgspec

V = TypeVar("V")

_MAX_PATTERN = 500
_ESCAPED: dict[str, tuple[tuple[int, int], ...]] = {
    "d": ((48, 57),),
    "w": ((97, 122), (65, 90), (48, 57), (95, 95)),
    "s": ((32, 32), (9, 13)),
}
_CONTROL = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
_ESCAPE = re.compile(
    r"\\(?:(?P<set>[dwsDWS])|(?P<control>[nrtfv])|x(?P<byte>[\da-fA-F]{2})|u(?P<point>[\da-fA-F]{4})|(?P<plain>[\W_]))"
)
_GROUP = re.compile(r"\((?:\?:|\?P?<(?![=!])[^>]*>|(?!\?))")
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<low>\d{1,6})(?P<comma>,(?P<high>\d{1,6})?)?\})[?+]?")
_LITERAL = re.compile(r"[^\\^$.\[|()*+?{]", re.DOTALL)
_SET_LITERAL = re.compile(r"[^\\\[\]&]|&(?!&)", re.DOTALL)


class CharacterSet(msgspec.Struct, frozen=True):
    """One character out of ranges of code points, or out of all others."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


class Sequence(msgspec.Struct, frozen=True):
    """Parts one after another."""

    parts: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of several."""

    options: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True):
    """A part several times; without `high`, any number of times."""

    part: Node
    low: int
    high: int | None


class Anchor(msgspec.Struct, frozen=True):
    """`^` or `$`."""

    sign: str


Node: TypeAlias = CharacterSet | Sequence | Choice | Repeat | Anchor


def parse(pattern: str) -> Node | None:
    """The structure of a pattern, or None if it uses syntax that this module does not read."""
    if len(pattern) > _MAX_PATTERN:
        return None
    reader = _Reader(pattern)
    try:
        node = reader.choice(depth=0)
    except _Unreadable:
        return None
    return None if reader.rest else node


class _Unreadable(Exception):
    """The pattern uses syntax that this module does not read."""


class _Reader:
    """Recursive descent over the pattern, with a bound on nesting."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def _skip(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += found
        return found

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def choice(self, depth: int) -> Node:
        if depth > 30:
            raise _Unreadable
        options = [self._sequence(depth)]
        while self._skip("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.rest[:1] not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, depth: int) -> Node:
        for sign in "^$":
            if self._skip(sign):
                return Anchor(sign)
        if self._match(_GROUP):
            inner = self.choice(depth + 1)
            _known(self._skip(")"))
            return inner
        if self._skip("["):
            return self._set()
        if self._skip("."):
            return CharacterSet(((10, 10), (13, 13)), negated=True)
        return self._letter(_LITERAL)

    def _repeated(self, part: Node) -> Node:
        found = self._match(_REPEAT)
        if found is None:
            return part
        if found["sign"]:
            return Repeat(part, int(found["sign"] == "+"), 1 if found["sign"] == "?" else None)
        low = int(found["low"])
        high = int(found["high"]) if found["high"] else None if found["comma"] else low
        _known(high is None or high >= low)
        return Repeat(part, low, high)

    def _set(self) -> CharacterSet:
        negated = self._skip("^")
        ranges: list[tuple[int, int]] = []
        while not self._skip("]"):
            member = self._letter(_SET_LITERAL)
            _known(not member.negated)
            low, high = member.ranges[0]
            if low == high and len(member.ranges) == 1 and self.rest[:1] == "-" and self.rest[1:2] not in ("]", ""):
                self._skip("-")
                last = self._letter(_SET_LITERAL)
                high, end = last.ranges[0]
                _known(len(last.ranges) == 1 and low <= high == end)
                ranges.append((low, high))
            else:
                ranges.extend(member.ranges)
        _known(bool(ranges))
        return CharacterSet(tuple(ranges), negated)

    def _letter(self, literal: re.Pattern[str]) -> CharacterSet:
        """One character of a pattern or of a set, escaped or matching `literal`."""
        found = self._match(_ESCAPE) or _known(self._match(literal))
        parts = found.groupdict()
        if letter := parts.get("set"):
            return CharacterSet(_ESCAPED[letter.lower()], negated=letter.isupper())
        if number := parts.get("byte") or parts.get("point"):
            code = int(number, 16)
        else:
            control = parts.get("control")
            code = _CONTROL[control] if control else ord(found[0][-1])
        return CharacterSet(((code, code),))


def _known(found: V | None) -> V:
    if not found:
        raise _Unreadable
    return found
