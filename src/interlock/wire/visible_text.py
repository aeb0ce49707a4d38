"""Text of peers for people to read: characters that move the cursor, reorder or hide text become visible escapes."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plain(text: str) -> str:
    """Escape all characters that could move the cursor, reorder or hide text. Line breaks stay."""
    # Most lines have none of them, and `isprintable` says so at once.
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(char if unicodedata.category(char) not in _HIDDEN else f"\\u{ord(char):04x}" for char in line)
