"""A sentence embedder: the small BERT model all-MiniLM-L6-v2 (Apache-2.0), run with numpy alone.

Rule: only the published weights are used, identified by their SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.discovery import model_files
from interlock.discovery.wordpiece import WordPieces, read_vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

DIMENSIONS: Final = 384
MAX_PIECES: Final = 128
"""Word pieces of one text that are read. Descriptions say early enough what a tool does."""
LEAST_ALONE: Final = 0.3
"""A cosine that a meaningless query seldom reaches with the nearest of a few hundred tools."""
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_BATCH = 32


class SentenceModel:
    """Callable with texts. Returns one vector for each."""

    def __init__(self, tensors: dict[str, Array], pieces: WordPieces) -> None:
        self._tensors = tensors
        self._pieces = pieces
        self._layers = [_Layer(tensors, f"encoder.layer.{number}.") for number in range(_LAYERS)]

    def __call__(self, texts: Sequence[str]) -> list[Array | None]:
        numbers = [self._pieces(text, MAX_PIECES) for text in texts]
        found: list[Array | None] = [None] * len(texts)
        # Batch texts of equal length, so that no padding is computed.
        for batch in _batches(numbers):
            vectors = self._embed([numbers[at] for at in batch])
            for at, vector in zip(batch, vectors, strict=True):
                found[at] = vector
        return found

    def _embed(self, texts: list[list[int]]) -> Array:
        """The mean of the last layer over all pieces. All texts have the same length."""
        import numpy as np

        at = np.array(texts)
        rows, length = at.shape
        tensors = self._tensors
        state = tensors["embeddings.word_embeddings.weight"][at]
        state = state + tensors["embeddings.position_embeddings.weight"][:length]
        state += tensors["embeddings.token_type_embeddings.weight"][0]
        state = _norm(state, tensors["embeddings.LayerNorm.weight"], tensors["embeddings.LayerNorm.bias"])
        state = state.reshape(rows * length, DIMENSIONS)
        for layer in self._layers:
            state = layer(state, rows, length)
        mean: Array = state.reshape(rows, length, DIMENSIONS).mean(axis=1)
        return mean


class _Layer:
    """One layer of the encoder: attention over all pieces, then a feed-forward network for each."""

    def __init__(self, tensors: dict[str, Array], prefix: str) -> None:
        def of(name: str) -> Array:
            return tensors[prefix + name]

        # Use transposed views of the tables: copies would take 42 MB.
        self._looks = [
            (of(f"attention.self.{part}.weight").T, of(f"attention.self.{part}.bias"))
            for part in ("query", "key", "value")
        ]
        self._out, self._out_bias = of("attention.output.dense.weight").T, of("attention.output.dense.bias")
        self._out_norm = of("attention.output.LayerNorm.weight"), of("attention.output.LayerNorm.bias")
        self._wide, self._wide_bias = of("intermediate.dense.weight").T, of("intermediate.dense.bias")
        self._narrow, self._narrow_bias = of("output.dense.weight").T, of("output.dense.bias")
        self._norm = of("output.LayerNorm.weight"), of("output.LayerNorm.bias")

    def __call__(self, state: Array, rows: int, length: int) -> Array:
        import numpy as np

        width = DIMENSIONS // _HEADS
        by_head = (rows, length, _HEADS, width)
        query, key, value = (self._look(number, state).reshape(by_head).transpose(0, 2, 1, 3) for number in range(3))
        seen: Array = query @ key.transpose(0, 1, 3, 2) * np.float32(width**-0.5)
        seen -= seen.max(axis=-1, keepdims=True)
        np.exp(seen, out=seen)
        seen /= seen.sum(axis=-1, keepdims=True)
        mixed: Array = (seen @ value).transpose(0, 2, 1, 3).reshape(rows * length, DIMENSIONS)
        state = _norm(state + mixed @ self._out + self._out_bias, *self._out_norm)
        thought = _gelu(state @ self._wide + self._wide_bias)
        return _norm(state + thought @ self._narrow + self._narrow_bias, *self._norm)

    def _look(self, number: int, state: Array) -> Array:
        """The query, key and value of each piece."""
        table, bias = self._looks[number]
        seen: Array = state @ table + bias
        return seen


def load(folder: Path) -> SentenceModel:
    """The model in a folder with `model.safetensors` and `vocab.txt`."""
    tensors = read_tensors(model_files.read(model_files.WEIGHTS, folder))
    vocabulary = model_files.read(model_files.VOCABULARY, folder)
    return SentenceModel(tensors, WordPieces(read_vocabulary(vocabulary.decode())))


def read_tensors(raw: bytes) -> dict[str, Array]:
    """The single-precision tables of a safetensors file, by name."""
    import numpy as np

    size = int.from_bytes(raw[:8], "little")
    tables = json.loads(raw[8 : 8 + size])
    found: dict[str, Array] = {}
    for name, table in tables.items():
        if name != "__metadata__" and table["dtype"] == "F32":
            first, last = table["data_offsets"]
            flat = np.frombuffer(raw, np.float32, offset=8 + size + first, count=(last - first) // 4)
            found[name] = flat.reshape(table["shape"])
    return found


def _batches(numbers: list[list[int]]) -> list[list[int]]:
    """Positions of texts with equal length, in batches."""
    by_length: dict[int, list[int]] = {}
    for at, text in enumerate(numbers):
        by_length.setdefault(len(text), []).append(at)
    return [places[i : i + _BATCH] for places in by_length.values() for i in range(0, len(places), _BATCH)]


def _norm(state: Array, scale: Array, shift: Array) -> Array:
    import numpy as np

    state = state - state.mean(axis=-1, keepdims=True)
    spread = np.sqrt((state * state).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    normed: Array = state / spread * scale + shift
    return normed


def _gelu(x: Array) -> Array:
    """GELU in its tanh form, which differs from the exact function in the fourth decimal."""
    import numpy as np

    cube = x * x
    cube *= x
    cube *= np.float32(0.044715)
    cube += x
    cube *= np.float32(0.7978845608)
    np.tanh(cube, out=cube)
    cube += 1
    cube *= x
    cube *= np.float32(0.5)
    return cube
