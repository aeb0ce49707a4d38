"""Patterns that the judges of commands refer to by name: rows of `patterns.txt`."""

from __future__ import annotations

import re
from functools import lru_cache

from interlock.judge.tables import read_table

_NAME = re.compile(r"<([A-Z_]+)>")


@lru_cache(maxsize=1)
def _patterns() -> dict[str, str]:
    return {row.head[0]: row.one("=") for row in read_table(__package__, "patterns.txt")}


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in which `<NAME>` stands for a named one."""
    while (whole := _NAME.sub(lambda match: f"(?:{_patterns()[match[1]]})", pattern)) != pattern:
        pattern = whole
    return re.compile(pattern)
