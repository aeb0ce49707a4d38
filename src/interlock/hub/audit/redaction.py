"""Removes secrets from names, reasons and details of audit records, and bounds their size.

A member is hidden by its name; the text redactor finds secrets inside texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.store.secret_names import names_a_secret

RedactText = Callable[[str], str]

MAX_TEXT: Final = 2000
MAX_MEMBERS: Final = 100
MAX_DEPTH: Final = 8


def unredacted(text: str) -> str:
    """The text redactor that changes nothing."""
    return text


def redact(value: object, text: RedactText = unredacted, depth: int = 0) -> object:
    """A JSON value with every secret replaced by its length, and cut where it is too long or too deep."""
    if isinstance(value, str):
        return redact_text(value, text)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if depth >= MAX_DEPTH:
        return "[cut: too deep]"
    if isinstance(value, dict):
        kept = {}
        for key, member in list(value.items())[:MAX_MEMBERS]:
            name = redact_text(str(key), text)
            kept[name] = _hidden(member) if names_a_secret(str(key)) else redact(member, text, depth + 1)
        if len(value) > MAX_MEMBERS:
            kept["[cut]"] = len(value) - MAX_MEMBERS
        return kept
    if isinstance(value, list | tuple):
        items = [redact(item, text, depth + 1) for item in value[:MAX_MEMBERS]]
        return [*items, f"[cut: {len(value) - MAX_MEMBERS} more]"] if len(value) > MAX_MEMBERS else items
    return f"[{type(value).__name__}]"


def redact_text(value: str, text: RedactText = unredacted) -> str:
    """A text without secrets, then cut to a bounded length: the redactor would not find half a secret."""
    kept = text(value[: 4 * MAX_TEXT])
    if len(kept) <= MAX_TEXT and len(value) <= 4 * MAX_TEXT:
        return kept
    return f"{kept[:MAX_TEXT]} [cut: {len(value)} characters]"


def _hidden(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    return f"[redacted: {len(value)} characters]" if isinstance(value, str) else "[redacted]"
