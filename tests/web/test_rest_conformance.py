"""Schemathesis against the REST face: whatever it makes of our OpenAPI document, the answers conform to it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.config.settings import Tools

from .running import example, hub_in_a_thread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="not measured: no schemathesis here"),
]


def test_every_answer_is_one_that_the_document_promises(tmp_path: Path) -> None:
    # A generator knows the schema alone, and `compare` has a rule that no schema holds.
    with hub_in_a_thread(tmp_path, {"fin": example(tools=Tools(deny=("compare",)))}) as url:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", "all"]
        command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "30", "--generation-deterministic"]
        judged = subprocess.run(
            [*command, "--continue-on-failure", "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert judged.returncode == 0, judged.stdout[-5_000:] + judged.stderr[-1_000:]
    assert "Tested: 7" in judged.stdout
