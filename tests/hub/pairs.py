"""What works between which two eras: the table in the documentation, and what `test_bridges_pairs` holds it to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

PAGE: Final = Path(__file__).parents[2] / "docs" / "bridges.md"
PART: Final = re.compile(r"(<!-- pairs -->\n).*?(<!-- /pairs -->)", re.DOTALL)

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

MISSING: Final[dict[tuple[Era, Era, Transport], frozenset[str]]] = {}
"""What does not work where, with the official SDK at both ends."""


def table() -> str:
    """Rows for the documentation."""
    rows = []
    for feature, told in FEATURES.items():
        cells = []
        for client, server in PAIRS:
            works = [way for way in TRANSPORTS if feature not in MISSING.get((client, server, way), frozenset())]
            cells.append(", ".join(works) or "no")
        rows.append(f"| {told} | {' | '.join(cells)} |")
    return "\n".join(rows)


def write() -> None:
    """Write the table into the documentation anew."""
    PAGE.write_text(PART.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", PAGE.read_text()))


if __name__ == "__main__":
    write()
