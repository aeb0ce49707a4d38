"""Merges the `instructions` of servers into one text for a client, within their share of the budget.

Each server's text stands under its own name, and cannot imitate the section of another server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from interlock.discovery.tokens import at_least, at_most
from interlock.hub.tool_search.tokens import SIGNS, TokenCounts
from interlock.wire.bounded_cache import cache_short

MAX_CHARS: Final = 4_000
"""The hub passes on this many characters of one server's instructions."""
MAX_TOTAL_CHARS: Final = 80_000
"""The limit for all servers together, where there is no budget."""
SHARE: Final = 8
"""Instructions take at most one part in this many of a budget."""


class Instructions(msgspec.Struct, frozen=True):
    """The instructions for a client."""

    text: str = ""
    tokens: int = 0
    """Upper bound for their tokens."""
    left_out: tuple[str, ...] = ()
    """Servers whose instructions exceed the budget."""
    counted: bool = True
    """Whether that was decided by exact counts rather than by upper bounds."""


def merged(
    texts: Iterable[tuple[str, str]], max_tokens: int | None, tokens: TokenCounts, *, bare: bool
) -> Instructions:
    """Merge the instructions of several servers in order, each whole or not at all, under its server's name.

    In a view of one server they stay as they are.
    """
    sections: list[str] = []
    left_out: list[str] = []
    used = length = 0
    counted = True
    for server, text in texts:
        if not text:
            continue
        raw, least = _section(server, text, bare)
        if not raw:
            continue
        length += len(raw)
        if max_tokens is not None and used + least > max_tokens:
            left_out.append(server)  # Even the lower bound exceeds the budget. With many servers, most end here.
            continue
        cost = 0
        if max_tokens is not None:
            known = tokens.known(raw)
            cost = (_most(raw) if known is None else known) + _seam(raw)
            counted = (known is not None or tokens.counted([raw])) and counted
        if length > MAX_TOTAL_CHARS or (max_tokens is not None and used + cost > max_tokens):
            left_out.append(server)
            continue
        sections.append(raw.decode())
        used += cost
    return Instructions("\n\n".join(sections), used, tuple(left_out), counted)


@cache_short(4096)
def _section(server: str, text: str, bare: bool) -> tuple[bytes, int]:
    """The text of a server, and a lower bound for its tokens. Both are asked for with every change of any server."""
    cut = _cut(text)
    raw = cut.encode("utf-8", "replace") if bare or not cut else section(server, text)
    return raw, at_least(raw)


@cache_short(4096)
def _most(section: bytes) -> int:
    """An upper bound for the tokens of a section. Only sections that may fit need it."""
    return at_most(section)


def section(server: str, text: str) -> bytes:
    """The text of a server under its name."""
    return f"# {server} (tools named {server}__…)\n{_below(_cut(text))}".encode("utf-8", "replace")


def _cut(text: str) -> str:
    return text.strip()[:MAX_CHARS].rstrip()


def _below(text: str) -> str:
    """Move a server's headings one level below its name."""
    return _HEADING.sub(r"\1##", "\n".join(text.splitlines()))


def _seam(section: bytes) -> int:
    """Upper bound for the tokens of the line ends behind a section. A tokenizer may join them with the signs before
    them into one piece, which costs at most its bytes."""
    return 2 + len(section) - len(section.rstrip(SIGNS))


_HEADING: Final = re.compile(r"^([^\S\n]*)#", re.MULTILINE)
