"""The reasons of feature sets and events in words, for the terminal and the console."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "invalid_uses": "it uses something that does not exist",
    "no_rule": "no rule names it",
    "not_selected": "not enabled",
}
"""Reasons that need a text of their own."""


def in_words(reason: str) -> str:
    """A reason in words. A reason with a space is a sentence already."""
    return reason if " " in reason else _WORDS.get(reason, reason.replace("_", " "))
