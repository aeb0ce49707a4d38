"""The work that one command may cost: one budget for all its texts, readings and expansions.

A command is questioned when its budget is used up. Costs count characters, so they are the same on every machine.
"""

from __future__ import annotations

from typing import Final

MAX_WORK: Final = 65_536
"""Eight times the characters that a command may have by default: enough for nested loops of a build."""
MAX_REFUSED: Final = 1_600
"""Work that goes on for a command which is questioned in any case, to name its other faults."""
TEXT: Final = 128
"""The cost of a text for a shell inside the command, beside its characters."""
READING: Final = 64
"""The cost of one more reading of a simple command, beside its characters."""
CHOICE: Final = 16
"""The cost of one choice of values for the variables in some words."""
WORD: Final = 32
"""The cost of a word that braces, patterns and values add to those that are written."""
PATTERN: Final = 64
"""The cost of finding the names that a pattern may match."""
_AT_ONCE: Final = 8
"""Characters of a value that cost as much as one of a command: no grammar reads them."""


class WorkBudget:
    """The work that is left for one command, handed on to each text inside it."""

    def __init__(self) -> None:
        self.left = MAX_WORK
        self.exceeded = False
        """Whether some part of the command was not followed to its end."""

    def spend(self, work: int) -> bool:
        """Whether there is enough left for this much work."""
        self.left -= work
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def exceed(self) -> None:
        """Note that a part of the command has more values than are followed: it is questioned in any case."""
        self.exceeded = True
        self.left = min(self.left, MAX_REFUSED)

    def spend_on_value(self, characters: int) -> bool:
        """Whether there is enough left to look at this many characters of values."""
        return self.spend(characters // _AT_ONCE + 1)
