"""The reasons of feature sets and events as people read them, in the terminal and in the console."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "invalid_uses": "it uses something that does not exist",
    "no_rule": "no rule names it",
    "not_selected": "not enabled",
}
"""Reasons that do not read as words."""


def in_words(reason: str) -> str:
    """A reason in words. One of several words is a sentence already, and may name a setting."""
    return reason if " " in reason else _WORDS.get(reason, reason.replace("_", " "))
