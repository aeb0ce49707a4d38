"""How many examples a property gets: few in `make test`, where they are the same each time, many in `make soak`."""

from __future__ import annotations

from hypothesis import settings

EVERY_RUN = 40
"""Examples of a property that names no number, in every run of the tests."""


def example_count(every_run: int, campaign: int) -> int:
    """The number for the profile that is loaded."""
    loaded = settings.default
    return every_run if loaded is None or loaded.max_examples <= EVERY_RUN else campaign
