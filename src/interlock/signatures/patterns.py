"""Reads regular expressions as far as people write them in schemas, to say them in words and to make a text that fits.

It never matches anything: what it cannot read (look-around, back references) it says nothing about.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

MAX_PATTERN = 500
_LAST = 0x10FFFF
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
    if len(pattern) > MAX_PATTERN:
        return None
    reader = _Reader(pattern)
    try:
        node = reader.choice(depth=0)
    except _Unreadable:
        return None
    return node if reader.at_end else None


def in_words(pattern: str) -> tuple[str, ...]:
    """How to write a text that fits: `use uppercase letters`, `1 to 5 characters`."""
    node = parse(pattern)
    if node is None or not _is_anchored(node):
        return ()
    words: list[str] = []
    if letters := _letters_in_words(_all_letters(node)):
        words.append(letters)
    least, most = _lengths(node)
    if length := length_in_words(least, most):
        words.append(length)
    if not _is_plain(node) and (text := example(pattern)):
        words.append(f"for example {text!r}")
    return tuple(words)


def length_in_words(least: int, most: int | None, noun: str = "character") -> str:
    """`1 to 5 characters`, `exactly 1 item`, `at least 2 items`; nothing where nothing is limited."""

    def counted(count: int) -> str:
        return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

    if most is None:
        return f"at least {counted(least)}" if least > 0 else ""
    if least == most:
        return f"exactly {counted(most)}"
    return f"{least} to {counted(most)}" if least else f"at most {counted(most)}"


def example(pattern: str, least: int = 0, variant: int = 0) -> str | None:
    """A text of at least `least` characters that fits, another for another variant; None if none is found."""
    node = parse(pattern)
    if node is None or least > 10_000:
        return None
    shortest, _ = _lengths(node)
    wanted = max(least, 1)
    if shortest > 10_000:
        return None
    text = _Writer(wanted - shortest, variant).write(node)
    if len(text) < least and not _is_anchored(node):
        text += "x" * (least - len(text))
    return text


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


class _Writer:
    """Writes the shortest text, and repeats more often while characters are still missing."""

    def __init__(self, missing: int, variant: int) -> None:
        self._missing = missing
        self._variant = variant

    def write(self, node: Node) -> str:
        match node:
            case Letters():
                return self._letter(node)
            case Sequence(parts):
                return "".join([self.write(part) for part in parts])
            case Choice(options):
                return self.write(options[self._variant % len(options)])
            case Repeat(part, least, most):
                return self._repeat(part, least, most)
        return ""

    def _letter(self, letters: Letters) -> str:
        if letters.negated:
            usable = (code for code in (97 + self._variant % 26, *range(97, 123), *range(33, 1000)))
            for code in usable:
                if not any(low <= code <= high for low, high in letters.ranges):
                    return chr(code)
            return ""
        low, high = letters.ranges[0]
        return chr(low + self._variant % (high - low + 1))

    def _repeat(self, part: Node, least: int, most: int | None) -> str:
        written = [self.write(part) for _ in range(least)]
        while self._missing > 0 and (most is None or len(written) < most):
            more = self.write(part)
            if not more:
                break
            written.append(more)
            self._missing -= len(more)
        return "".join(written)


def _one(code: int) -> Letters:
    return Letters(((code, code),))


def _is_one(letters: Letters) -> bool:
    return len(letters.ranges) == 1 and letters.ranges[0][0] == letters.ranges[0][1]


def _is_anchored(node: Node) -> bool:
    """Whether the whole text has to fit, and not only a part of it."""
    if isinstance(node, Choice):
        return all(_is_anchored(option) for option in node.options)
    if not isinstance(node, Sequence) or len(node.parts) < 2:
        return False
    return node.parts[0] == Anchor("^") and node.parts[-1] == Anchor("$")


def _is_plain(node: Node) -> bool:
    """Whether it is one kind of character, repeated: then its words say all there is to say."""
    parts = [part for part in node.parts if not isinstance(part, Anchor)] if isinstance(node, Sequence) else [node]
    if len(parts) != 1:
        return not parts
    inner = parts[0].part if isinstance(parts[0], Repeat) else parts[0]
    return isinstance(inner, Letters)


def _all_letters(node: Node) -> tuple[Letters, ...]:
    match node:
        case Letters():
            return (node,)
        case Sequence(parts) | Choice(parts):
            return tuple(letters for part in parts for letters in _all_letters(part))
        case Repeat(part, _, _):
            return _all_letters(part)
    return ()


def _lengths(node: Node) -> tuple[int, int | None]:
    match node:
        case Letters():
            return 1, 1
        case Sequence(parts):
            inner = [_lengths(part) for part in parts]
            most = [high for _, high in inner]
            return sum(low for low, _ in inner), None if None in most else sum(high or 0 for high in most)
        case Choice(options):
            inner = [_lengths(option) for option in options]
            most = [high for _, high in inner]
            return min(low for low, _ in inner), None if None in most else max(high or 0 for high in most)
        case Repeat(part, least, times):
            low, high = _lengths(part)
            return low * least, None if times is None or high is None else high * times
    return 0, 0


def _letters_in_words(found: tuple[Letters, ...]) -> str:
    if any(letters.negated for letters in found):
        excluded = [letters for letters in found if letters.negated]
        if len(found) == 1 and all(low == high for low, high in excluded[0].ranges):
            return "do not use " + _listed([_quoted(low) for low, _ in excluded[0].ranges])
        return ""
    names: list[str] = []
    for low, high in dict.fromkeys(span for letters in found for span in letters.ranges):
        name = {(65, 90): "uppercase letters", (97, 122): "lowercase letters", (48, 57): "digits"}.get((low, high))
        names.append(name or (_quoted(low) if low == high else f"{_quoted(low)} to {_quoted(high)}"))
    return "use " + _listed(list(dict.fromkeys(names))) if 0 < len(names) <= 8 else ""


def _quoted(code: int) -> str:
    return repr(chr(code))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
