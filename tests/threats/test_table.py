"""Every row of `docs/threats.md` and of the table of defects has its tests, and every numbered test its row."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "threats.md"
DEFECTS = TESTS / "attacks" / "README.md"
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


def named_by_defects() -> list[tuple[str, str]]:
    """Every file in the table of defects, with the name of its test or nothing."""
    cells = [line.rpartition(" | ")[2] for line in DEFECTS.read_text().splitlines() if "| `" in line]
    ids = [found.partition("::") for cell in cells for found in re.findall(r"`([^`]+)`", cell)]
    return [(file, test) for file, _, test in ids]


def test_every_test_of_a_defect_exists_and_every_attack_is_named() -> None:
    for file, test in named_by_defects():
        path = TESTS.parent / file if file.startswith("bench/") else TESTS / file
        assert path.is_file(), file
        assert re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE) or not test, f"{file}::{test}"
    named = {file for file, _ in named_by_defects()}
    assert {f"attacks/{path.name}" for path in DEFECTS.parent.glob("test_*.py")} <= named
