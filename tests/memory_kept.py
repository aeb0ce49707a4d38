"""How much memory a function leaves behind: what it made and did not free, on any machine the same."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def kept_by(function: Callable[[], object]) -> int:
    """The bytes that are still there after a function and were not before. Cycles of garbage do not count."""
    gc.collect()
    tracemalloc.start()
    try:
        function()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept
