"""The table of defects names tests that exist, and names every test of this folder."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def named() -> list[tuple[str, str]]:
    """Every file of the table, with the name of its test or nothing."""
    cells = [line.rpartition(" | ")[2] for line in (HERE / "README.md").read_text().splitlines() if "| `" in line]
    ids = [found.partition("::") for cell in cells for found in re.findall(r"`([^`]+)`", cell)]
    return [(file, test) for file, _, test in ids]


def test_every_named_test_exists() -> None:
    assert len(named()) > 100
    for file, test in named():
        path = TESTS.parent / file if file.startswith("bench/") else TESTS / file
        assert path.is_file(), file
        assert not test or test in TEST.findall(path.read_text()), f"{file}::{test}"


def test_every_attack_is_named() -> None:
    for path in HERE.glob("test_*.py"):
        if path != Path(__file__):
            missing = set(TEST.findall(path.read_text())) - {test for _, test in named()}
            assert not missing, f"{path.name}: {missing}"
