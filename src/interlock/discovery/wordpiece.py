"""Splits text into the numbered word pieces of a BERT model: lower case, no accents, longest piece first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from interlock.discovery.errors import DiscoveryError
from interlock.wire.unicode_forms import normalize

MAX_WORD = 100
"""Characters of one word. A longer word counts as unknown."""


class WordPieces:
    """Splits texts with one vocabulary. A text begins and ends with the marks that the model was trained with."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        missing = [mark for mark in ("[CLS]", "[SEP]", "[UNK]") if mark not in vocabulary]
        if missing:
            raise DiscoveryError("embedder", f"the vocabulary has no {missing[0]}; it is not one of a BERT model")
        self._vocabulary = vocabulary
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._unknown = vocabulary["[UNK]"]
        self._pieces = lru_cache(maxsize=16_384)(self._split_word)

    def __call__(self, text: str, most: int) -> list[int]:
        """The pieces of a text, at most `most` including the marks. The rest is cut."""
        numbers = [self._first]
        # Every piece has at least one character, so more text cannot matter.
        for word in _words(_plain(text[: most * MAX_WORD])):
            numbers.extend(self._pieces(word))
            if len(numbers) >= most - 1:
                break
        return [*numbers[: most - 1], self._last]

    def _split_word(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD:
            return (self._unknown,)
        numbers: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    numbers.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(numbers)


def read_vocabulary(text: str) -> dict[str, int]:
    """A vocabulary file: one piece a line, numbered from 0."""
    return {piece: number for number, piece in enumerate(text.split("\n")) if piece}


def _plain(text: str) -> str:
    text = text.lower()
    if text.isascii():
        return text
    return "".join(c for c in normalize("NFD", text) if unicodedata.category(c) != "Mn")


def _words(text: str) -> list[str]:
    """Words in order. As in the model's training, punctuation and Han characters are words of their own."""
    if text.isascii():
        return _WORD.findall(text)
    return "".join(f" {c} " if _stands_alone(c) else c for c in text).split()


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return not character.isalnum() and not character.isspace()
    return _HAN.match(character) is not None or unicodedata.category(character)[0] == "P"


_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+|[^\s\w]|_")
