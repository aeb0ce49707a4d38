"""An embedder without a model: the mean of fixed vectors, one for each piece of a word, from an installed wheel.

Only package data of the `wordllama` wheel is read (its own loader may reach for the network, so it is never imported).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module, resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.discovery import words
from interlock.discovery.errors import DiscoveryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_PIECES = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticVectors:
    """Call it with texts; each becomes the mean of the vectors of its pieces, stop words left out."""

    def __init__(self, table: Vector, pieces: Callable[[str], Sequence[int]]) -> None:
        self._table = table
        self._pieces = pieces

    def __call__(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Vector | None:
        import numpy as np

        telling = " ".join(word for word in words.split(text) if word not in words.STOP_WORDS)
        numbers = self._pieces(telling)
        if not numbers:
            return None
        mean: Vector = self._table[list(numbers)].mean(axis=0, dtype=np.float32)
        return mean


def installed() -> bool:
    """Whether the optional extra is there."""
    return find_spec("wordllama") is not None and find_spec("tokenizers") is not None


def load() -> StaticVectors:
    """The vectors of the installed wheel; a clear error without it."""
    if not installed():
        raise DiscoveryError("embedder", "static vectors are not installed: pip install 'interlock[semantic]'")
    package = resources.files("wordllama")
    tokenizer = import_module("tokenizers").Tokenizer.from_str((package / _PIECES).read_text("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    table = read_safetensors((package / _WEIGHTS).read_bytes())

    def pieces(text: str) -> Sequence[int]:
        numbers: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return numbers

    return StaticVectors(table, pieces)


def read_safetensors(raw: bytes) -> Vector:
    """The one half-precision table of a safetensors file, kept in half precision."""
    import numpy as np

    size = int.from_bytes(raw[:8], "little")
    if not 2 <= size <= min(len(raw) - 8, 1 << 20):
        raise DiscoveryError("embedder", "the vector file is damaged; reinstall the extra")
    header = json.loads(raw[8 : 8 + size])
    tables = [value for key, value in header.items() if key != "__metadata__"]
    if len(tables) != 1 or tables[0]["dtype"] != "F16" or len(tables[0]["shape"]) != 2:
        raise DiscoveryError("embedder", "the vector file is not one table of half-precision numbers")
    first, last = tables[0]["data_offsets"]
    flat = np.frombuffer(raw, np.float16, offset=8 + size + first, count=(last - first) // 2)
    table: Vector = flat.reshape(tables[0]["shape"])
    return table
