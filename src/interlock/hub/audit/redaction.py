"""Removes secrets from names, reasons and details of audit records, and bounds their size.

A member is hidden by its name; the text redactor finds secrets inside texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from interlock.store.secret_names import is_secret

RedactText = Callable[[str], str]

MAX_TEXT: Final = 2000
MAX_MEMBERS: Final = 100
MAX_DEPTH: Final = 8
_MAX_WORD: Final = 200
"""Characters of each list item that are searched for secrets together with the other items."""


def unredacted(text: str) -> str:
    """The text redactor that changes nothing."""
    return text


def redact(
    value: object,
    text: RedactText = unredacted,
    depth: int = 0,
    *,
    max_text: int = MAX_TEXT,
    max_members: int = MAX_MEMBERS,
) -> object:
    """A JSON value with every secret replaced by its length, and cut where it is too long or too deep."""
    if isinstance(value, str):
        return redact_text(value, text, max_text)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if depth >= MAX_DEPTH:
        return "[cut: too deep]"

    def inner(member: object) -> object:
        return redact(member, text, depth + 1, max_text=max_text, max_members=max_members)

    if isinstance(value, dict):
        kept = {}
        for key, member in list(value.items())[:max_members]:
            name = redact_text(str(key), text, max_text)
            kept[name] = _hidden(member) if is_secret(str(key), member) else inner(member)
        if len(value) > max_members:
            kept["[cut]"] = len(value) - max_members
        return kept
    if isinstance(value, list | tuple):
        items = [inner(item) for item in _without_passwords(value[:max_members], text)]
        return [*items, f"[cut: {len(value) - max_members} more]"] if len(value) > max_members else items
    return f"[{type(value).__name__}]"


def redact_text(value: str, text: RedactText = unredacted, max_text: int = MAX_TEXT) -> str:
    """A text without secrets, cut to a bounded length after redaction, because half a secret would not be found."""
    kept = text(value[: 4 * MAX_TEXT])
    if len(kept) <= max_text and len(value) <= 4 * MAX_TEXT:
        return kept
    return f"{kept[:max_text]} [cut: {len(value)} characters]"


def _without_passwords(items: Sequence[object], text: RedactText) -> Sequence[object]:
    """Redact the words of a command together, because a password is recognized by its program and its flag."""
    words = [item[:_MAX_WORD].replace("\f", " ") if isinstance(item, str) else "" for item in items]
    if not any(word.startswith("-") for word in words):
        return items
    judged = text("\f".join(words)).split("\f")
    if len(judged) != len(words):  # A secret spans several words, so redact each word.
        return items
    return [
        item if word == found else found if word == item else _hidden(item)
        for item, word, found in zip(items, words, judged, strict=True)
    ]


def _hidden(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    return f"[redacted: {len(value)} characters]" if isinstance(value, str) else "[redacted]"
