"""The lines in which two texts differ, for a person to read. Bounded: a peer chooses both texts."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MAX_LINES: Final = 400
MAX_CHARS: Final = 64 * 1024
_CONTEXT: Final = 2

Mark = Literal["same", "added", "removed", "skipped"]
_MARKS: Final[dict[str, Mark]] = {"+": "added", "-": "removed", "@": "skipped", " ": "same"}


class Line(msgspec.Struct, frozen=True):
    """One line of a comparison."""

    mark: Mark
    text: str


def compare(before: str, after: str) -> list[Line] | None:
    """The lines that differ, with a little around them; empty for equal texts, None for texts that are too long."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_LINES or max(len(before), len(after)) > MAX_CHARS:
        return None
    import difflib  # Loaded with the first comparison.

    found = list(difflib.unified_diff(old, new, lineterm="", n=_CONTEXT))[2:]
    return [Line(_MARKS[line[0]], "" if line[0] == "@" else line[1:]) for line in found]


def marked(difference: str) -> list[Line]:
    """The lines of a unified difference that the hub made, such as that of two tool definitions."""
    return [Line(_MARKS.get(line[:1], "same"), line) for line in difference.splitlines()]
