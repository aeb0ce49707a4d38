"""Reads the structure of regular expressions as far as people write them in schemas.

What it does not read (look-around, back references, word boundaries) it says nothing about.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

_MAX_PATTERN = 500
_ESCAPED: dict[str, tuple[tuple[int, int], ...]] = {
    "d": ((48, 57),),
    "w": ((97, 122), (65, 90), (48, 57), (95, 95)),
    "s": ((32, 32), (9, 13)),
}
_CONTROL = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}


class Letters(msgspec.Struct, frozen=True):
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
    """A part several times; without `most`, any number of times."""

    part: Node
    least: int
    most: int | None


class Anchor(msgspec.Struct, frozen=True):
    """`^` or `$`."""

    sign: str


Node: TypeAlias = Letters | Sequence | Choice | Repeat | Anchor


def parse(pattern: str) -> Node | None:
    """The structure of a pattern, or None if it uses what this module does not read."""
    if len(pattern) > _MAX_PATTERN:
        return None
    reader = _Reader(pattern)
    try:
        node = reader.choice(depth=0)
    except _Unreadable:
        return None
    return node if reader.at_end else None


class _Unreadable(Exception):
    """The pattern uses what this module does not read."""


class _Reader:
    """Recursive descent over the pattern, with a bound on nesting."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def choice(self, depth: int) -> Node:
        if depth > 30:
            raise _Unreadable
        options = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _next(self) -> str:
        letter = self._peek()
        if not letter:
            raise _Unreadable
        self._at += 1
        return letter

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, depth: int) -> Node:
        letter = self._next()
        if letter in "^$":
            return Anchor(letter)
        if letter == "(":
            if self._text.startswith("?:", self._at):
                self._at += 2
            elif self._text.startswith(("?P<", "?<"), self._at) and self._text[self._at : self._at + 3] not in (
                "?<=",
                "?<!",
            ):
                self._at = self._text.find(">", self._at) + 1 or len(self._text)
            elif self._peek() == "?":
                raise _Unreadable
            inner = self.choice(depth + 1)
            if self._next() != ")":
                raise _Unreadable
            return inner
        if letter == "[":
            return self._set()
        if letter == ".":
            return Letters(((10, 10), (13, 13)), negated=True)
        if letter == "\\":
            return self._escape()
        if letter in "*+?{":
            raise _Unreadable
        return Letters(((ord(letter), ord(letter)),))

    def _escape(self) -> Letters:
        letter = self._next()
        if letter.lower() in _ESCAPED:
            return Letters(_ESCAPED[letter.lower()], negated=letter.isupper())
        if letter in _CONTROL:
            return _one(_CONTROL[letter])
        if letter in "xu":
            return self._code_point(2 if letter == "x" else 4)
        if letter.isalnum():
            raise _Unreadable
        return _one(ord(letter))

    def _code_point(self, digits: int) -> Letters:
        number = self._text[self._at : self._at + digits]
        self._at += digits
        try:
            return _one(int(number, 16))
        except ValueError:
            raise _Unreadable from None

    def _set(self) -> Letters:
        negated = self._peek() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = self._set_member()
            if low.negated:
                raise _Unreadable
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", "") and _is_one(low):
                self._at += 1
                high = self._set_member()
                if not _is_one(high) or high.ranges[0][0] < low.ranges[0][0]:
                    raise _Unreadable
                ranges.append((low.ranges[0][0], high.ranges[0][0]))
            else:
                ranges.extend(low.ranges)
        self._at += 1
        if not ranges:
            raise _Unreadable
        return Letters(tuple(ranges), negated)

    def _set_member(self) -> Letters:
        letter = self._next()
        if letter == "\\":
            return self._escape()
        if letter == "[" or (letter == "&" and self._peek() == "&"):
            raise _Unreadable
        return _one(ord(letter))

    def _repeated(self, part: Node) -> Node:
        sign = self._peek()
        if sign not in ("*", "+", "?", "{") or not sign:
            return part
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, 0)) if sign != "{" else self._counts()
        if self._peek() in ("?", "+"):
            self._at += 1
        return Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at : end].partition(",") if end >= 0 else ("", "", "")
        if not low.isdecimal() or (high and not high.isdecimal()) or len(low) > 6 or len(high) > 6:
            raise _Unreadable
        self._at = end + 1
        most = int(high) if high else None if comma else int(low)
        if most is not None and most < int(low):
            raise _Unreadable
        return int(low), most


def _one(code: int) -> Letters:
    return Letters(((code, code),))


def _is_one(letters: Letters) -> bool:
    return len(letters.ranges) == 1 and letters.ranges[0][0] == letters.ranges[0][1]
