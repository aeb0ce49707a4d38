"""Python's own parser without its warnings about odd escapes and numbers, which concern the author alone."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_ONE_AT_A_TIME = threading.Lock()
"""The filters of warnings belong to the whole process."""


@contextmanager
def without_warnings() -> Iterator[None]:
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
