"""The reasons for a hit, in whole words: to people, stems would look like mistakes."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.discovery import words
from interlock.discovery.entries import ToolEntry
from interlock.discovery.usage import UsageBoost


def whole_words(texts: Iterable[str]) -> dict[str, str]:
    """The first word in the texts for each term."""
    found: dict[str, str] = {}
    for text in texts:
        for word in words.split(text):
            found.setdefault(words.stem(word), word)
    return found


def matched_words(asked: dict[str, str], matched: list[tuple[str, str]], entry: ToolEntry) -> str:
    """The words of the query that a tool matches, each with the tool's word if it differs."""
    parameters = (text for parameter in entry.parameters for text in parameter)
    held = whole_words((entry.name, *entry.keywords, entry.server, entry.description, *parameters))
    held.setdefault(words.joined(entry.name), entry.name)
    shown = [
        asked.get(term) or held.get(term, term)
        if term == found
        else f"{asked.get(term, term)} as {held.get(found, found)}"
        for term, found in matched
    ]
    return ", ".join(shown)


def learned(raised: UsageBoost) -> str:
    """How earlier use raised the tool."""
    times = "once" if raised.count == 1 else f"{raised.count} times"
    return f"learned: called {times} after queries like this, +{raised.share:.2f}"
