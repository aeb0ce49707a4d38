"""What goes into a record besides facts of our own: free of secrets, and bounded.

A value is taken out by the name it stands under; what a text holds is the text redactor's to find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.store.secret_names import names_a_secret

RedactText = Callable[[str], str]

LONGEST_TEXT: Final = 2000
MOST_MEMBERS: Final = 100
DEEPEST: Final = 8


def plain(text: str) -> str:
    """No text redactor: a text stands as it is."""
    return text


def redact(value: object, text: RedactText = plain, depth: int = 0) -> object:
    """A JSON value with every secret replaced by its length, cut where it is longer or deeper than a record takes."""
    if isinstance(value, str):
        return redact_text(value, text)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if depth >= DEEPEST:
        return "[cut: too deep]"
    if isinstance(value, dict):
        kept = {}
        for key, member in list(value.items())[:MOST_MEMBERS]:
            name = redact_text(str(key), text)
            kept[name] = _hidden(member) if names_a_secret(str(key)) else redact(member, text, depth + 1)
        if len(value) > MOST_MEMBERS:
            kept["[cut]"] = len(value) - MOST_MEMBERS
        return kept
    if isinstance(value, list | tuple):
        items = [redact(item, text, depth + 1) for item in value[:MOST_MEMBERS]]
        return [*items, f"[cut: {len(value) - MOST_MEMBERS} more]"] if len(value) > MOST_MEMBERS else items
    return f"[{type(value).__name__}]"


def redact_text(value: str, text: RedactText = plain) -> str:
    """A text without secrets, cut to the length a record takes: afterwards, since half a secret is not recognised."""
    kept = text(value[: 4 * LONGEST_TEXT])
    if len(kept) <= LONGEST_TEXT and len(value) <= 4 * LONGEST_TEXT:
        return kept
    return f"{kept[:LONGEST_TEXT]} [cut: {len(value)} characters]"


def _hidden(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    return f"[redacted: {len(value)} characters]" if isinstance(value, str) else "[redacted]"
