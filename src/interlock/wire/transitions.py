"""Steps through tables of transitions, where an event that a table does not have is a defect of the hub.

State machines that refuse or ignore such an event read their tables themselves.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class ImpossibleTransition(Exception):
    """An event that the table does not allow in this state: a defect of the hub, not of its peers."""


def next_state(table: Mapping[S, Mapping[E, S]], state: S, event: E, what: str) -> S:
    """The state after an event. Raises ImpossibleTransition, with `what` as the machine that cannot take the event."""
    try:
        return table[state][event]
    except KeyError:
        raise ImpossibleTransition(f"{event.value} cannot happen to {what} that is {state.value}") from None
