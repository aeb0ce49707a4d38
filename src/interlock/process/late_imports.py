"""Imports at first use, of parts that take memory and that some hubs never need.

An upgrade of the files below a running hub makes such an import fail, or mixes two versions. Only a restart helps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.wire.errors import Fault

_log = logging.getLogger(__name__)


@contextmanager
def late_import() -> Iterator[None]:
    """Import in this block. Raises INTERNAL_ERROR that says to restart the hub, whatever the import raises."""
    try:
        yield
    except Exception as cause:
        _log.error("a part of Interlock could not be loaded", exc_info=cause)
        message = "a part of Interlock could not be loaded: its files may have changed since the hub started"
        raise Fault("INTERNAL_ERROR", message, hint="restart the hub: `interlock down`, then `interlock up`") from None
