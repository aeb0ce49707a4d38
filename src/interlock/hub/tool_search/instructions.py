"""What servers say of themselves in `instructions`, as one text for a client, within its part of the budget.

The one rule: a server speaks under its own name only; nothing it writes can look like another's section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from interlock.hub.tool_search.tokens import SIGNS, TokenCounts

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
    counted: bool = True
    """Whether that is so because they were counted, and not only bounded."""


def merged(said: Iterable[tuple[str, str]], room: int | None, tokens: TokenCounts, *, bare: bool) -> Instructions:
    """The instructions of several servers, in order, each under its server's name and each whole or not at all.

    `room` is in tokens. A view of one server alone is told them as they are.
    """
    sections: list[str] = []
    left_out: list[str] = []
    taken = length = 0
    counted = True
    for server, text in said:
        raw = _cut(text).encode("utf-8", "replace") if bare else section(server, text)
        if not _cut(text):
            continue
        length += len(raw)
        cost = 0 if room is None else tokens.of_text(raw) + _seam(raw)
        counted = counted and (room is None or tokens.counted([raw]))
        if length > LONGEST_TOGETHER or (room is not None and taken + cost > room):
            left_out.append(server)
            continue
        sections.append(raw.decode())
        taken += cost
    return Instructions("\n\n".join(sections), taken, tuple(left_out), counted)


def section(server: str, text: str) -> bytes:
    """What a server says, under its name."""
    return f"# {server} (tools named {server}__…)\n{_below(_cut(text))}".encode("utf-8", "replace")


def _cut(text: str) -> str:
    return text.strip()[:LONGEST].rstrip()


def _below(text: str) -> str:
    """A server's headings stand one level below its name."""
    return _HEADING.sub(r"\1##", "\n".join(text.splitlines()))


def _seam(section: bytes) -> int:
    """What the two ends of line behind a section can add: with the signs before them they are one piece, which costs
    its bytes at most."""
    return 2 + len(section) - len(section.rstrip(SIGNS))


_HEADING: Final = re.compile(r"^([^\S\n]*)#", re.MULTILINE)
