"""Detects theft, secrecy and override in other languages by word stems.

The lists hold stems. Within a sentence order is not looked at, since every language has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from interlock.judge.tables import read_table

_Words = dict[str, re.Pattern[str]]


def foreign_instructions(text: str) -> Iterator[tuple[str, float, str]]:
    """Instructions in other languages: the rule, its weight, and the sentence."""
    for start in range(0, max(1, len(text)), _STRETCH):
        yield from _in_stretch(text[max(0, start - _OVERLAP) : start + _STRETCH])


def _in_stretch(text: str) -> Iterator[tuple[str, float, str]]:
    scripts = []
    if not text.isascii() and _OTHER_SCRIPT.search(text):
        scripts.append("other")
    marked = text.count(" ") > 1 and _MARKED.search(text) is not None
    if marked or len(_small_words().intersection(text.lower().split())) > 1:
        scripts.append("latin")
    if not scripts:
        return
    lowered = text.lower()
    sentences: list[str] | None = None
    for words in (words for script in scripts for words in _languages()[script]):
        if not words["send"].search(lowered) and not words["ignore"].search(lowered):
            continue
        if sentences is None:
            sentences = [part for part in _SENTENCE_END.split(lowered) if len(part) > 5]
        for sentence in sentences:
            yield from _changes(words, sentence)


def _changes(words: _Words, sentence: str) -> Iterator[tuple[str, float, str]]:
    if words["ignore"].search(sentence) and words["instructions"].search(sentence):
        yield "override", 1.5, sentence
    if not words["send"].search(sentence):
        return
    if words["secretly"].search(sentence):
        yield "secrecy", 1.5, sentence
    if words["asset"].search(sentence):
        yield "theft", 1.5 if words["before"].search(sentence) else 0.75, sentence


@lru_cache(maxsize=1)
def _languages() -> dict[str, list[_Words]]:
    """The words of each language, by script."""
    languages: dict[str, list[_Words]] = {"other": [], "latin": []}
    for (_, script), fields in read_table(__package__, "languages.txt"):
        edge = r"\b" if script == "latin" else ""
        words = {key: re.compile(f"{edge}(?:{value})") for key, value in fields if key in _KINDS}
        if words:
            languages[script].append(words)
    return languages


@lru_cache(maxsize=1)
def _small_words() -> frozenset[str]:
    """Small words of the languages in Latin script; two of them in one text, and it may be in one of those."""
    return frozenset(word for row in read_table(__package__, "languages.txt") for word in row.one("small").split())


_KINDS = ("send", "asset", "before", "secretly", "ignore", "instructions")
_STRETCH = 8_192
_OVERLAP = 512
"""Characters of the stretch before that are read again, since a sentence may begin there."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n。！？।؟]+")
_OTHER_SCRIPT = re.compile("[\u0400-\u04ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_MARKED = re.compile("[ß-öø-ÿąćęğıłńśşźżçñ]")
