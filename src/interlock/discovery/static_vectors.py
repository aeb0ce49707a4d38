"""An embedder without a model: the mean of fixed word vectors, from a file in the format of GloVe and fastText (a word
and its numbers on each line)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.discovery import words
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.semantic import MAX_DIMENSIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MAX_WORDS: Final = 400_000
"""Lines that are read. Such files begin with the most frequent words."""
MAX_LINE: Final = 65_536


class StaticVectors:
    """Callable with texts. Returns for each the mean of its word vectors, without stop words."""

    def __init__(self, table: Vector, rows: Mapping[str, int]) -> None:
        self._table = table
        self._rows = rows

    def __call__(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Vector | None:
        import numpy as np

        telling = (word for word in words.split(text) if word not in words.STOP_WORDS)
        rows = [row for word in telling if (row := self._rows.get(word)) is not None]
        if not rows:
            return None
        mean: Vector = self._table[rows].mean(axis=0, dtype=np.float32)
        return mean


def read(path: Path) -> StaticVectors:
    """The vectors of a file. Raises `DiscoveryError` with the first malformed line."""
    import numpy as np

    rows: dict[str, int] = {}
    vectors: list[Vector] = []
    try:
        with path.open("rb") as lines:
            while len(rows) < MAX_WORDS and (line := lines.readline(MAX_LINE)):
                word, _, numbers = line.rstrip().decode("utf-8", "replace").partition(" ")
                if not rows and not vectors and numbers.isdigit():
                    continue  # The first line of fastText is the number of vectors.
                vector = _vector(numbers)
                size = len(vectors[0]) if vectors else len(vector)
                if not word or len(vector) != size or not 1 < size <= MAX_DIMENSIONS or not np.isfinite(vector).all():
                    raise DiscoveryError("embedder", f"line {len(vectors) + 1} of {path} is not a word and its numbers")
                if rows.setdefault(word.lower(), len(vectors)) == len(vectors):
                    vectors.append(vector.astype(np.float16))
    except OSError as cause:
        raise DiscoveryError("embedder", f"{path} cannot be read: {cause.strerror}") from None
    if not vectors:
        raise DiscoveryError("embedder", f"{path} holds no vectors")
    return StaticVectors(np.stack(vectors), rows)


def _vector(numbers: str) -> Vector:
    """The vector of a line; empty if it is malformed."""
    import numpy as np

    try:
        return np.array(numbers.split(), np.float32)
    except ValueError:
        return np.zeros(0, np.float32)
