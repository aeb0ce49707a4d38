"""What servers say of themselves in `instructions`, as one text for a client, within its part of the budget.

The one rule: a server speaks under its own name only; nothing it writes can look like another's section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from interlock.hub.kernel.tokens import SIGNS

LONGEST: Final = 4_000
"""Characters of one server's instructions that are passed on."""
LONGEST_TOGETHER: Final = 80_000
"""And of all servers', where there is no budget."""
SHARE: Final = 8
"""One of so many parts of a budget is the most that instructions take."""


class Instructions(msgspec.Struct, frozen=True):
    """A client's instructions."""

    text: str = ""
    tokens: int = 0
    """What they cost at most."""
    left_out: tuple[str, ...] = ()
    """Servers whose instructions have no room."""


def merged(
    said: Iterable[tuple[str, str]], room: int | None, count: Callable[[bytes], int], *, bare: bool
) -> Instructions:
    """The instructions of several servers, in order, each under its server's name and each whole or not at all.

    `room` is in tokens. A view of one server alone is told them as they are.
    """
    sections: list[str] = []
    left_out: list[str] = []
    tokens = length = 0
    for server, text in said:
        text = text.strip()[:LONGEST].rstrip()
        if not text:
            continue
        section = text if bare else f"# {server} (tools named {server}__…)\n{_below(text)}"
        length += len(section)
        raw = section.encode("utf-8", "replace")
        cost = count(raw) + _seam(raw)
        if length > LONGEST_TOGETHER or (room is not None and tokens + cost > room):
            left_out.append(server)
            continue
        sections.append(section)
        tokens += cost
    return Instructions("\n\n".join(sections), tokens, tuple(left_out))


def _below(text: str) -> str:
    """A server's headings stand one level below its name."""
    return _HEADING.sub(r"\1##", "\n".join(text.splitlines()))


def _seam(section: bytes) -> int:
    """What the two ends of line behind a section can add: with the signs before them they are one piece, which costs
    its bytes at most."""
    return 2 + len(section) - len(section.rstrip(SIGNS))


_HEADING: Final = re.compile(r"^([^\S\n]*)#", re.MULTILINE)
