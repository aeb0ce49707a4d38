"""Expansions that change the value of a variable: `${x/a/b}`, `${x%.js}`, `${x,,}`, `${x:1:3}`.

Only changes by plain patterns are followed. The value of any other is not known before the command runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

MAX_CHARS: Final = 512
"""A longer value is not followed."""
_MAX_STARS: Final = 1
"""A pattern is then a head and a tail, which are found in one pass each."""
_PLAIN = r"""[^~$`"'\\{}\[\]()/]{0,100}"""
_NEW = r"""[^~$`"'\\{}\[\]()/&]{0,100}"""
_NUMBER = r"(?:0|[1-9][0-9]{0,3})"
"""With a leading zero, bash reads an octal number."""
_CHANGE = re.compile(
    rf"\$\{{(?P<name>\w+)(?:(?P<replace>//(?!/)|/#|/%|/(?!/))(?P<old>{_PLAIN})(?:/(?P<new>{_NEW}))?"
    rf"|(?P<cut>##?|%%?)(?P<part>[^~$`\"'\\{{}}\[\]()]{{0,100}})|(?P<letters>,,?|\^\^?)|:(?P<at>{_NUMBER})(?::(?P<size>{_NUMBER}))?)\}}",
    re.ASCII,
)
"""A third slash (`${x///b}`) begins the pattern, and `&` stands for the match in some versions of bash."""


def changed_name(source: str) -> str | None:
    """The variable that an expansion changes; None for one that cannot be followed."""
    found = _CHANGE.fullmatch(source)
    if found is None or (found["old"] or found["part"] or "").count("*") > _MAX_STARS:
        return None
    return found["name"]


def changed(source: str, text: str) -> list[str]:
    """The values that an expansion may make of a text; none where that is not followed."""
    # The locale says whether bash counts letters or bytes.
    return changed_by_letters(source, text) if text.isascii() and source.isascii() else []


def changed_by_letters(source: str, text: str) -> list[str]:
    """The values that an expansion makes of a text where bash counts letters."""
    found = _CHANGE.fullmatch(source)
    if found is None or len(text) > MAX_CHARS:
        return []
    if found["letters"]:
        return [_in_letters(found["letters"], text)]
    if found["at"]:
        start = int(found["at"])
        return [text[start : start + int(found["size"])] if found["size"] else text[start:]]
    if found["cut"]:
        return [_cut(found["cut"], found["part"], text)]
    # With `shopt -s nocasematch`, bash finds other letters, too.
    folds = (False, True) if len(text.lower()) == len(text) else (False,)
    made = (_replaced(found["replace"], found["old"], found["new"] or "", text, fold=fold) for fold in folds)
    return list(dict.fromkeys(made))


def _in_letters(operator: str, text: str) -> str:
    change = str.lower if operator[0] == "," else str.upper
    return change(text) if len(operator) == 2 else change(text[:1]) + text[1:]


def _cut(operator: str, pattern: str, text: str) -> str:
    """Without the shortest or the longest beginning, or end, that matches."""
    parts = _Parts(pattern, text)
    if operator[0] == "#":
        return text[parts.first_end(longest=operator == "##") or 0 :]
    start = parts.last_start(longest=operator == "%%")
    return text if start is None else text[:start]


def _replaced(operator: str, pattern: str, new: str, text: str, *, fold: bool) -> str:
    if not pattern:
        # bash puts the new text before the value, or behind it.
        return {"/#": new + text, "/%": text + new}.get(operator, text)
    if pattern == "*":
        return new
    parts = _Parts(pattern.lower(), text.lower()) if fold else _Parts(pattern, text)
    if operator == "/%":
        start = parts.last_start(longest=True)
        return text if start is None else text[:start] + new
    if operator == "/#":
        end = parts.first_end(longest=True)
        return text if end is None else new + text[end:]
    kept, at = [], 0
    for start, end in parts.spans():
        kept += [text[at:start], new]
        at = end
        if operator == "/":
            break
    return "".join([*kept, text[at:]])


class _Parts:
    """The places of a pattern in a text: of the part before its star, and of the part behind it.

    A `?` stands for any letter. A set of places is a number with a bit for each of them, so all places are compared
    at once: a pattern takes as many steps as it has letters, and the text one for each of its letters.
    """

    def __init__(self, pattern: str, text: str) -> None:
        head, star, tail = pattern.partition("*")
        self._star = bool(star)
        self._head, self._tail = len(head), len(tail)
        self._size = len(text)
        places: dict[str, int] = {}
        for at, letter in enumerate(text):
            places[letter] = places.get(letter, 0) | 1 << at
        self._heads = _places(head, self._size, places)
        self._tails = _places(tail, self._size, places) if star else 0

    def first_end(self, *, longest: bool) -> int | None:
        """The end of the beginning that matches."""
        return self._end_from(0, longest=longest) if self._heads & 1 else None

    def last_start(self, *, longest: bool) -> int | None:
        """The start of the end that matches."""
        last = self._size - self._tail
        if not self._star:
            last = self._size - self._head
            return last if last >= 0 and self._heads >> last & 1 else None
        if last < 0 or not self._tails >> last & 1:
            return None
        heads = self._heads & (1 << max(last - self._head + 1, 0)) - 1
        return (_first(heads) if longest else heads.bit_length() - 1) if heads else None

    def spans(self) -> Iterator[tuple[int, int]]:
        """The longest matches, each behind the one before it. With a star there is but one, up to the last tail."""
        heads, at = self._heads, 0
        while heads := heads >> at << at:
            start = _first(heads)
            end = self._end_from(start, longest=True)
            if end is None:
                return
            yield start, end
            if self._star:
                return
            at = end

    def _end_from(self, start: int, *, longest: bool) -> int | None:
        """The end of a match that starts at a place of the head."""
        after = start + self._head
        if not self._star:
            return after
        tails = self._tails >> after
        if not tails:
            return None
        return after + (tails.bit_length() - 1 if longest else _first(tails)) + self._tail


def _places(part: str, size: int, places: Mapping[str, int]) -> int:
    """Where a text of some size holds a part of a pattern, by the places of its letters."""
    if len(part) > size:
        return 0
    found = (1 << size - len(part) + 1) - 1
    for at, letter in enumerate(part):
        if letter != "?":
            found &= places.get(letter, 0) >> at
    return found


def _first(places: int) -> int:
    return (places & -places).bit_length() - 1
