"""Similarity of meaning: one unit vector per tool, compared with that of the query.

The caller provides the vectors, from static word vectors, a model or an endpoint. A text without a vector is ranked by
its words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from interlock.discovery.errors import DiscoveryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Slots = NDArray[np.intp]
    Flags = NDArray[np.bool_]

Embedder = Callable[[Sequence[str]], "Sequence[Sequence[float] | Vector | None]"]
"""Turns texts into vectors, one for each; None for a text without one."""

MAX_DIMENSIONS = 4_096
_BLOCK = 4_096
_FEW = 8
"""Up to one part in this many of a block, copying the wanted slots costs less than comparing the whole block."""


class VectorIndex:
    """Unit vectors by slot, in blocks, so that growing copies no existing vectors."""

    def __init__(self) -> None:
        self._blocks: list[Vector] = []
        self._dimensions = 0
        self._known = bytearray()
        """One for each slot with a vector."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, slot: int, vector: Sequence[float] | Vector) -> None:
        import numpy as np

        unit = self._unit(vector)
        if not self._dimensions:
            self._dimensions = len(unit)
        while len(self._blocks) * _BLOCK <= slot:
            self._blocks.append(np.zeros((_BLOCK, self._dimensions), np.float32))
        self._blocks[slot // _BLOCK][slot % _BLOCK] = unit
        if len(self._known) <= slot:
            self._known.extend(bytes(slot + 1 - len(self._known)))
        self._count += not self._known[slot]
        self._known[slot] = 1

    def remove(self, slot: int) -> None:
        if slot < len(self._known) and self._known[slot]:
            self._known[slot] = 0
            self._count -= 1
            self._blocks[slot // _BLOCK][slot % _BLOCK] = 0

    def known(self, slots: Slots) -> Flags:
        """Flags for the slots, in ascending order: whether each has a vector."""
        import numpy as np

        return np.frombuffer(bytes(self._known).ljust(int(slots[-1]) + 1, b"\0"), np.bool_)[slots]

    def score(self, queries: Sequence[Sequence[float] | Vector], slots: Slots) -> Vector | None:
        """The cosine of each slot, in ascending order, with every query; one row per query.

        A slot without a vector gets the mean of the others. None if no slot has one.
        """
        import numpy as np

        known = self.known(slots)
        if not known.any():
            return None
        units = np.stack([self._unit(query) for query in queries])
        scores = np.zeros((len(units), len(slots)), np.float32)
        bounds = np.searchsorted(slots, np.arange(len(self._blocks) + 1) * _BLOCK).tolist()
        for number, (first, last) in enumerate(pairwise(bounds)):
            rows, block = slots[first:last] - number * _BLOCK, self._blocks[number]
            if len(rows) < _BLOCK // _FEW:
                scores[:, first:last] = units @ block[rows].T
            else:
                scores[:, first:last] = (units @ block.T)[:, rows]
        if not known.all():
            scores[:, ~known] = scores[:, known].mean(axis=1, keepdims=True)
        return scores

    def _unit(self, vector: Sequence[float] | Vector) -> Vector:
        import numpy as np

        unit = np.asarray(vector, np.float32)
        if unit.ndim != 1 or not 0 < len(unit) <= MAX_DIMENSIONS or not np.isfinite(unit).all():
            raise DiscoveryError("vector", f"a vector is 1 to {MAX_DIMENSIONS} finite numbers; check the embedder")
        if self._dimensions and len(unit) != self._dimensions:
            message = f"a vector of {len(unit)} numbers among vectors of {self._dimensions}; one embedder per index"
            raise DiscoveryError("vector", message)
        length = float(np.linalg.norm(unit))
        return unit / length if length > 0 else unit
