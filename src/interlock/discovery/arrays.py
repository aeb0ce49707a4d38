"""Unordered arrays of numbers, from which elements are removed without moving the others."""

from __future__ import annotations

from array import array


def position(numbers: array[int], number: int) -> int:
    """The position of a number. Long arrays are searched without creating an object for each element."""
    if len(numbers) < _SHORT:
        return numbers.index(number)
    import numpy as np

    return int(np.flatnonzero(np.frombuffer(numbers, np.int32) == number)[0])


_SHORT = 100
