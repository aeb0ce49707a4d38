"""The lines in which two texts differ, for a person to read. Bounded: a peer chooses both texts."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MAX_LINES: Final = 400
MAX_CHARS: Final = 64 * 1024
_CONTEXT: Final = 2

Mark = Literal["same", "added", "removed", "skipped"]
_MARKS: Final[dict[str, Mark]] = {"+": "added", "-": "removed", "@": "skipped", " ": "same"}


class ComparedLine(msgspec.Struct, frozen=True):
    """One line of a comparison."""

    mark: Mark
    text: str


def compare(before: str, after: str) -> list[ComparedLine] | None:
    """The lines that differ, with a little around them; empty for equal texts, None for texts that are too long."""
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > MAX_LINES or max(len(before), len(after)) > MAX_CHARS:
        return None
    import difflib  # Loaded with the first comparison.

    return marked("\n".join(difflib.unified_diff(old, new, lineterm="", n=_CONTEXT)))


def marked(difference: str) -> list[ComparedLine]:
    """The lines of a unified difference, without its two lines of names. Other lines stay as they are."""
    lines = difference.split("\n") if difference else []
    if difference.startswith("--- "):
        lines = lines[2:]
    found: list[ComparedLine] = []
    for line in lines:
        mark = _MARKS.get(line[:1])
        found.append(
            ComparedLine("same", line) if mark is None else ComparedLine(mark, "" if mark == "skipped" else line[1:])
        )
    return found
