"""Combines scores of different kinds: each kind is scaled to 0..1 by its own range, then a weighted sum is taken.

Ranges are used instead of ranks, because the distance between the best tool and the next matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    Flags = NDArray[np.bool_]

STEP_WEIGHT = 0.7
"""The weight of the best single step of a query beside the whole query."""
MANY_STEPS = 3
"""With this many parts, the parts of a query count as steps of a task. Two parts are often one step and its context."""
FIRST_OF_STEP = 0.3
ENOUGH_KNOWN = 0.5
"""The share of tools with vectors from which meaning has its full weight."""
_BLOCK = 512
"""The block size of `best`, which looks at the best score of each block first."""


def min_max(scores: Scores) -> Scores:
    """Scores scaled to 0..1. Equal scores all become zero."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if high <= low:
        return scores * 0
    moved: Scores = (scores - low) / (high - low)
    return moved


def blend(lexical: Scores, semantic: Scores, lexical_weight: float, known: Flags | None = None) -> Scores:
    """One score from words and meaning.

    A tool without a vector is ranked as if its meaning fitted as well as its words. If few tools have vectors, the
    range of meaning is random, so it weighs less.
    """
    mixed = min_max(lexical)
    if known is None or known.all():
        mixed = lexical_weight * mixed + (1 - lexical_weight) * min_max(semantic)
    else:
        weight = (1 - lexical_weight) * min(1.0, float(known.mean()) / ENOUGH_KNOWN)
        mixed[known] = (1 - weight) * mixed[known] + weight * min_max(semantic[known])
    if not mixed.any():
        # All scores are equal, as with a single tool. It must be found anyway.
        mixed = lexical_weight * lexical + (1 - lexical_weight) * semantic
    return mixed


def choose(semantic: Scores, lexical: Scores, known: Flags, scale: float) -> Scores:
    """The score by meaning for tools with a vector, and by words for others. `scale` is the match of the best words.

    The scores are not stretched to the whole range: if no meaning is near, the nearest one is chance. If few vectors
    are known, the nearest of them is chance as well, and words count beside it.
    """
    import numpy as np

    best = lexical.max()
    by_words = lexical * (scale / best) if best > 0 else lexical
    weight = min(1.0, float(known.mean()) / ENOUGH_KNOWN) if best > 0 else 1.0
    chosen: Scores = np.where(known, weight * semantic + (1 - weight) * by_words, by_words)
    return chosen


def best(scores: Scores, many: int, alike: int) -> list[int]:
    """The positions of the best scores above zero, and up to `alike` more that equal the last of them.

    Including equal scores makes the answer independent of the order of insertion. The best score of each block shows
    early which blocks matter.
    """
    import numpy as np

    highest = np.maximum.reduceat(scores, np.arange(0, len(scores), _BLOCK))
    least = np.partition(highest, -many)[-many] if len(highest) >= many else 0.0
    places = np.flatnonzero(scores >= least if least > 0 else scores > 0)
    if len(places) <= many:
        return [int(place) for place in places]
    chosen = scores[places]
    lowest = np.partition(chosen, -many)[-many]
    return [*places[chosen > lowest].tolist(), *places[chosen == lowest][:alike].tolist()]


def steps(whole: Scores, parts: Sequence[Scores]) -> Scores:
    """Scores for a query of several steps: a tool counts for the whole query, and for the step that it serves best.

    Otherwise a long step would displace the tools of short steps. With many steps, the best tool of each step is
    raised, because similar tools of other steps would displace it.
    """
    import numpy as np

    if len(parts) < 2:
        return whole
    best = min_max(parts[0])
    for part in parts[1:]:
        best = np.maximum(best, min_max(part))
    summed: Scores = min_max(whole) + STEP_WEIGHT * best
    if not summed.any():
        return whole
    if len(parts) >= MANY_STEPS:
        summed[list({int(np.argmax(part)) for part in parts})] += FIRST_OF_STEP
    return summed
