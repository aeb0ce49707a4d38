"""Every program of the bench fits the code that it measures: it can be loaded, and the hub that it prepares is one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import forking

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ELSEWHERE = {"fastmcp_proxy"}
"""Runs in an environment of its own, with what it is about."""
PROGRAMS = sorted({path.stem for path in (ROOT / "bench").glob("*.py")} - ELSEWHERE)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "bench"), str(ROOT / "src")))}
    return subprocess.run(forking.command(*arguments), env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_can_be_loaded(program: str) -> None:
    loaded = run(str(HERE / "loading.py"), program)
    assert loaded.returncode == 0, loaded.stderr


def test_a_governed_home_is_prepared_with_a_key_to_call_with(tmp_path: Path) -> None:
    made = run(str(ROOT / "bench" / "governed.py"), str(tmp_path), "--servers", "2", "--others", "3")
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip()
    assert (tmp_path / "hub.db").exists()


def test_a_warm_call_takes_a_short_way() -> None:
    """At most 60 functions of 25 files, and 10 returns to a file: see docs/architecture.md."""
    followed = run(str(ROOT / "bench" / "call_path.py"), "--strict")
    assert followed.returncode == 0, followed.stdout + followed.stderr
