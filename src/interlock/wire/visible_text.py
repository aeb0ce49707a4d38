"""Text of peers for people to read: characters that move the cursor, reorder or hide text become visible escapes."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_CONTROLS: Final = frozenset({"Cc", "Zl", "Zp"})
_REORDERING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and draw nothing: variation selectors, fillers, the empty Braille cell.
Text can be smuggled in them, a byte in each."""
_STYLES: Final = frozenset("\ufe0e\ufe0f")
"""The selectors that choose between a picture and a letter. One of them behind a symbol is ordinary text."""


def plain(text: str) -> str:
    """Escape all characters that could move the cursor, reorder or hide text. Line breaks stay."""
    # Most lines have none of them, and `isprintable` says so at once.
    return "\n".join(line if _is_plain(line) else _escaped(line) for line in text.split("\n"))


def reorders(name: str) -> bool:
    """Whether a name has line breaks, or characters that move the cursor or reorder the text around it."""
    return not name.isprintable() and any(
        unicodedata.category(char) in _CONTROLS or unicodedata.bidirectional(char) in _REORDERING for char in name
    )


def _is_plain(line: str) -> bool:
    return line.isprintable() and (line.isascii() or _BLANK.search(line) is None)


def _escaped(line: str) -> str:
    shown, before = [], ""
    for char in line:
        hidden = unicodedata.category(char) in _HIDDEN or (not char.isascii() and _BLANK.match(char) is not None)
        if hidden and not (char in _STYLES and before and unicodedata.category(before) == "So"):
            shown.append(f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}")
        else:
            shown.append(char)
        before = char
    return "".join(shown)
