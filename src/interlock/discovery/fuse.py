"""How scores of different kinds become one: brought to 0..1 by their own range, then a weighted sum.

Ranges rather than ranks: how far the best tool stands before the next is worth keeping.
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
"""From here on the parts of a query are steps of a task; two are as often one step and what surrounds it."""
FIRST_OF_STEP = 0.3
ENOUGH_KNOWN = 0.5
"""The share of tools from which meaning has its whole weight."""
_BLOCK = 512
"""Scores of which the best is looked at first."""


def min_max(scores: Scores) -> Scores:
    """Scores moved to 0..1; all equal gives all zero."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if high <= low:
        return scores * 0
    moved: Scores = (scores - low) / (high - low)
    return moved


def blend(lexical: Scores, semantic: Scores, lexical_weight: float, known: Flags | None = None) -> Scores:
    """One score from words and meaning.

    A tool whose meaning is not known is ranked as if it fitted as well as its words do. Where few are known, their
    range is that of chance, and meaning weighs less.
    """
    mixed = min_max(lexical)
    if known is None or known.all():
        mixed = lexical_weight * mixed + (1 - lexical_weight) * min_max(semantic)
    else:
        weight = (1 - lexical_weight) * min(1.0, float(known.mean()) / ENOUGH_KNOWN)
        mixed[known] = (1 - weight) * mixed[known] + weight * min_max(semantic[known])
    if not mixed.any():
        # Nothing tells the tools apart, as with a single one: it is found all the same.
        mixed = lexical_weight * lexical + (1 - lexical_weight) * semantic
    return mixed


def choose(semantic: Scores, lexical: Scores, known: Flags, scale: float) -> Scores:
    """The meaning of each tool where it is known, and its words elsewhere. `scale` says how well the best words match.

    Neither is stretched to the whole range: where no meaning is near, the nearest is chance.
    """
    import numpy as np

    best = lexical.max()
    by_words = lexical * (scale / best) if best > 0 else lexical
    chosen: Scores = np.where(known, semantic, by_words)
    return chosen


def best(scores: Scores, many: int, alike: int) -> list[int]:
    """The places of the best scores above zero, and up to `alike` of those that are equal to the last of them.

    Equals have the same claim, so that the answer need not depend on what was added when. The best of each block tell
    soon which scores can be among them.
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
    """A query of several steps: a tool counts for the whole, and for the one step it serves best.

    Without this a long step pushes the tools of the short ones off the list. Where there are many steps, the best tool
    of each is raised: tools that are alike would crowd it out.
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
