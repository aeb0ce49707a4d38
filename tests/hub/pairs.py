"""The features that work between two eras: the table in the documentation. `python -m tests.hub.pairs` writes it, and
`test_bridges_pairs` checks it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final, Literal

PAGE: Final = Path(__file__).parents[2] / "docs" / "bridges.md"
PART: Final = re.compile(r"(<!-- pairs -->\n)(.*?)(<!-- /pairs -->)", re.DOTALL)

Era = Literal["old", "new"]
Transport = Literal["stdio", "http"]

PAIRS: Final[tuple[tuple[Era, Era], ...]] = (("old", "old"), ("old", "new"), ("new", "old"), ("new", "new"))
TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http")
"""At both ends: a client that starts `interlock stdio` with a server that the hub starts, or HTTP with HTTP."""

FEATURES: Final = {
    "sampling": "Sampling, with model preferences, `includeContext` and tools",
    "form": "Elicitation: a form with defaults and choices",
    "visit": "Elicitation: a page to open",
    "roots": "Roots",
    "progress": "Progress",
    "logging": "Log messages",
    "changes": "Changed lists",
    "updates": "Changed resources",
    "cancellation": "Cancellation",
}

Pairing = tuple[Era, Era, Transport]


def table(works: Mapping[Pairing, Set[str]]) -> str:
    """Rows for the documentation, from what was seen to work where."""
    rows = []
    for feature, told in FEATURES.items():
        cells = []
        for client, server in PAIRS:
            ways = [way for way in TRANSPORTS if feature in works[client, server, way]]
            cells.append(", ".join(ways) or "no")
        rows.append(f"| {told} | {' | '.join(cells)} |")
    return "\n".join(rows)


def documented() -> dict[Pairing, set[str]]:
    """The table of the documentation."""
    part = PART.search(PAGE.read_text())
    assert part is not None
    rows = {line.split(" | ")[0].removeprefix("| "): line.strip(" |").split(" | ")[1:] for line in part[2].splitlines()}
    assert list(rows) == list(FEATURES.values()), "run `python -m tests.hub.pairs`"
    works: dict[Pairing, set[str]] = {(*pair, way): set() for pair in PAIRS for way in TRANSPORTS}
    for feature, told in FEATURES.items():
        for (client, server), cell in zip(PAIRS, rows[told], strict=True):
            for way in TRANSPORTS:
                if way in cell.split(", "):
                    works[client, server, way].add(feature)
    return works


async def write() -> None:
    """Try everything everywhere, and write what worked into the documentation."""
    from .test_bridges_pairs import failures

    works: dict[Pairing, Set[str]] = {}
    for client, server in PAIRS:
        for way in TRANSPORTS:
            failed = await failures(client, server, way)
            works[client, server, way] = FEATURES.keys() - failed.keys()
            print(client, server, way, failed or "all of it")
    PAGE.write_text(PART.sub(lambda match: f"{match[1]}{table(works)}\n{match[3]}", PAGE.read_text()))


if __name__ == "__main__":
    asyncio.run(write())
