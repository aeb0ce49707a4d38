"""Tables: text files that lie beside the code, with a row for each thing that a judge or another check knows.

A row is a line that begins at the margin, and indented lines below it, each a key and the rest of the line. Blank lines
and lines that begin with `#` do not count.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One row of a table: the words of its first line, and its fields in their order."""

    head: tuple[str, ...]
    fields: list[tuple[str, str]]

    def one(self, key: str) -> str:
        """The value of a field that stands at most once."""
        return next((value for name, value in self.fields if name == key), "")


def read_table(package: str, name: str) -> list[Row]:
    """The rows of a table in a package."""
    rows: list[Row] = []
    # `importlib.resources` would load what reads archives.
    folder = import_module(package).__path__[0]
    for line in Path(folder, name).read_text("utf-8").splitlines():
        if not line or line[0] == "#":
            continue
        if line[0] != " ":
            rows.append(Row(tuple(line.split()), []))
        else:
            key, _, value = line.lstrip().partition(" ")
            rows[-1].fields.append((key, value))
    return rows


def read_names(package: str, name: str) -> dict[str, frozenset[str]]:
    """A table whose rows are sets of names: by the first word of each row, all words in its fields."""
    return {row.head[0]: frozenset(" ".join(map(" ".join, row.fields)).split()) for row in read_table(package, name)}


def name_set(text: str) -> frozenset[str]:
    """The names in a text, with spaces between them."""
    return frozenset(text.split())
