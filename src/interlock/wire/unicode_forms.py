"""Unicode normalization of text that a peer wrote, in bounded time.

The standard library sorts a run of combining marks by insertion, and holds the interpreter until it is done: 60,000
marks behind one letter stop the whole process for seconds. Unicode's Stream-Safe Text Format (UAX #15) allows 30
marks in a run; more are dropped here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

MAX_MARKS: Final = 30
PIECE_CHARS: Final = 512
"""Characters for each call of the standard library, or more where that would split a syllable. One character can
become eighteen."""
MAX_PIECE_CHARS: Final = 4_096


def normalize(form: Form, text: str) -> str:
    """The text in a normal form, without the marks of a run beyond thirty."""
    if text.isascii():
        return text
    text = without_long_runs(text)
    if len(text) <= PIECE_CHARS:
        return unicodedata.normalize(form, text)
    return "".join([unicodedata.normalize(form, piece) for piece in _pieces(text)])


def has_long_run(text: str) -> bool:
    """Whether more than thirty combining marks follow one another."""
    if text.isascii() or len(text.encode("utf-8", "surrogatepass")) - len(text) <= MAX_MARKS:
        return False  # Each mark takes a byte more than a letter of ASCII, so there are at most thirty.
    return without_long_runs(text) != text


def without_long_runs(text: str) -> str:
    """The text without the combining marks of a run beyond thirty."""
    return _MAY_BE_MARKS.sub(_cut, text)


def _cut(found: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in found[0]:
        marks = marks + 1 if unicodedata.category(char)[0] == "M" or char in _WIDTH_MARKS else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def _pieces(text: str) -> Iterator[str]:
    start, end = 0, len(text)
    while start < end:
        stop = start + PIECE_CHARS
        while stop < end and stop < start + MAX_PIECE_CHARS and _JOINING.match(text, stop):
            stop += 1
        yield text[start:stop]
        start = stop


_WIDTH_MARKS: Final = "\uff9e\uff9f"
"""The only letters that become marks: the voicing marks of half-width Katakana."""
_MAY_BE_MARKS: Final = re.compile(rf"(?:[^\w\s\x00-\x7f]|[{_WIDTH_MARKS}]){{{MAX_MARKS + 1},}}")
"""Marks are neither letters nor digits. Rows of symbols match as well, and are looked at one by one."""
_JOINING: Final = re.compile(rf"[^\w\s\x00-\x7f]|[{_WIDTH_MARKS}\u1160-\u11ff\u3131-\u318e\uffa0-\uffdc]")
"""Characters that may join with the one before them: marks, and the parts of Korean syllables."""
