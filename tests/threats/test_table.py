"""Every row of `docs/threats.md` has its tests, and every numbered test its row."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "threats.md"
ROW = re.compile(r"^\| T(\d+) \|.*\| ([^|]*) \|$", re.MULTILINE)


def numbered(file: Path) -> set[int]:
    return {int(number) for number in re.findall(r"def test_t(\d+)_", file.read_text())}


def test_every_row_names_files_that_hold_a_test_with_its_number() -> None:
    rows = ROW.findall(PAGE.read_text())
    numbers = [int(number) for number, _ in rows]
    assert numbers == sorted(set(numbers)), "each number once, in order"
    for number, named in rows:
        files = re.findall(r"`([^`]+)`", named)
        assert files, number
        for name in files:
            assert int(number) in numbered(TESTS / name), f"{name} has no test_t{number}_…"


def test_every_numbered_test_has_a_row() -> None:
    rows = {int(number) for number, _ in ROW.findall(PAGE.read_text())}
    for file in TESTS.rglob("test_*.py"):
        assert numbered(file) <= rows, file.name
