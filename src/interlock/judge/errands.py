"""Sentences in a description that send the model on an errand: orders about something else than the use of the tool.

Known by tone, not by phrase: each word and each pair of neighbours weighs for or against, as a table says that was
learnt from descriptions of real tools and from orders written for the purpose (`bench/errands.py`). Every finding shows
its sentence and the words that told.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple
from zlib import crc32

CERTAIN = 100
"""A score at which a sentence counts as an errand by itself; the table is made so."""
LIKELY = 40
"""A score at which it counts together with something else."""
SHORTEST = 4
"""Words that an order takes at the least."""
LONGEST = 60
"""Words of a sentence that are read together."""
LONGEST_TEXT = 16_384
"""Of a longer text the beginning and the end are read."""


class Errand(NamedTuple):
    """A sentence that orders, how strongly, and which of its words told."""

    sentence: str
    score: int
    telling: tuple[str, ...]


def errands_in(text: str) -> Iterator[Errand]:
    """Each sentence whose tone is that of an errand, in order."""
    if len(text) > LONGEST_TEXT:
        text = f"{text[: LONGEST_TEXT // 2]}\n{text[-LONGEST_TEXT // 2 :]}"
    table = _table()
    for sentence, words, pairs in sentences(text):
        score = table.bias + sum(map(_weight_of, words)) + sum(map(table.pair, pairs))
        if score >= LIKELY:
            yield Errand(sentence, score, _telling(words, pairs))


def sentences(text: str) -> Iterator[tuple[str, set[str], set[tuple[str, str]]]]:
    """Each sentence that is long enough, with its words and its pairs of neighbours.

    The first sentence of a text begins differently: there an order is how one says what a tool does.
    """
    start = FIRST
    for match in _SENTENCE.finditer(text):
        words = [word if word.isalpha() else _shape(word) for word in _WORD.findall(match[0].lower())]
        for at in range(0, len(words), LONGEST):
            part = words[at : at + LONGEST]
            if len(part) >= SHORTEST:
                yield match[0], set(part), set(zip([start, *part], part, strict=False))
        if words:
            start = LATER


def stem(word: str) -> str:
    """The word without its ending: two words of one stem weigh alike, besides what each weighs by itself."""
    if len(word) > _SHORT:
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
    return word


FIRST, LATER = "^^", "^"
"""What stands before the first word of the first sentence, and of every later one."""


_SENTENCE = re.compile(r"[^\s.!?](?:[^.!?\n]|[.!?](?!\s|$))*+[.!?]*+")
_WORD = re.compile(
    r"https?:\S+|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]*|\+?\d[\d,. ()x-]{5,40}\d|0x[0-9a-f]{20,}"
    r"|(?:[a-z0-9-]{2,40}\.){1,4}(?:com|net|org|io|dev|co|biz|sh|site|app|info|me|cc)\b|[~.]?/[\w./-]{2,80}|\.[a-z]{2,8}\b"
    r"|[a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:['\u2019-][a-z]+)*|[,;:(]"
)
_SHORT = 4
_ENDINGS = ("ing", "ed", "es", "s", "ly", "e")


def _shape(word: str) -> str:
    """What stands for words that are all different: addresses, links, names of tools, paths, numbers."""
    if "@" in word:
        return "<mail>"
    if word.startswith("http"):
        return "<link>"
    if "_" in word:
        return "<name>"
    if word[0] in "~/.":
        return "<path>"
    if word[0] in "+0123456789":
        return "<number>"
    return "<host>" if "." in word else word


def _telling(words: set[str], pairs: set[tuple[str, str]]) -> tuple[str, ...]:
    """The few words and pairs that weighed most."""
    found = [(_weight_of(word), word) for word in words]
    found += [(_table().pair(pair), " ".join(pair).lstrip("^ ")) for pair in pairs]
    return tuple(dict.fromkeys(said for weight, said in sorted(found, reverse=True)[:_FEW] if weight > 0))


_FEW = 4


class _Table:
    """The weights, by a sum of each word or pair: as strings they would take thirty times the room.

    That a word which is not in the table has the sum of one that is happens once in three hundred thousand.
    """

    def __init__(self) -> None:
        self.bias = 0
        found: dict[int, int] = {}
        with files(__package__).joinpath("errands.tsv").open(encoding="utf-8") as lines:
            for line in lines:
                feature, _, weight = line.partition("\t")
                if feature == "=":
                    self.bias = int(weight)
                else:
                    found[crc32(feature.encode())] = int(weight)
        self._sums = array("I", sorted(found))
        self._weights = array("h", [found[each] for each in self._sums])

    def pair(self, pair: tuple[str, str]) -> int:
        """What two neighbours weigh, besides what each weighs by itself."""
        return self.of(f"{pair[0]} {pair[1]}")

    def of(self, feature: str) -> int:
        """What a word weighs, or a stem behind its mark, or two words."""
        wanted, sums = crc32(feature.encode()), self._sums
        at = bisect_left(sums, wanted)
        return self._weights[at] if at < len(sums) and sums[at] == wanted else 0


@lru_cache(maxsize=1)
def _table() -> _Table:
    return _Table()


@lru_cache(maxsize=4_096)
def _weight_of(word: str) -> int:
    return _table().of(word) + _table().of("~" + stem(word))


def let_go() -> None:
    """Drop the table; it is read again when a description is next judged."""
    _table.cache_clear()
    _weight_of.cache_clear()
