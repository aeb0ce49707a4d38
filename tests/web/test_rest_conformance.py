"""Schemathesis against the REST face: whatever it makes of our OpenAPI document, the answers conform to it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from interlock.config.settings import ToolSettings
from interlock.hub.admin.table import OPERATIONS

from .running import example, hub_in_a_thread

TABLES = Path(__file__).parents[2] / ".hypothesis"
"""Where Hypothesis keeps tables of characters. In an empty folder it takes seconds to make them."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="not measured: no schemathesis here"),
]


def test_every_answer_is_one_that_the_document_promises(tmp_path: Path) -> None:
    # A generator knows the schema alone, and `compare` has a rule that no schema holds.
    with hub_in_a_thread(tmp_path, {"fin": example(tools=ToolSettings(deny=("compare",)))}) as url:
        judged = judge(tmp_path, url, "--max-examples", "10")
    assert judged.returncode == 0, judged.stdout[-5_000:] + judged.stderr[-1_000:]
    assert "Tested: 7" in judged.stdout


@pytest.mark.hypothesis  # `make soak` runs it too
def test_every_answer_of_the_admin_addresses_is_one_that_the_document_promises(tmp_path: Path) -> None:
    keys = {"operator": ""}
    with hub_in_a_thread(tmp_path, {"fin": example()}, keys=keys, kind="person") as url:
        # Names of servers, keys and questions are made up here, so that what is well-formed may still be refused.
        more = ["--exclude-checks", "positive_data_acceptance", "--include-path-regex", "^/admin/"]
        key = f"Authorization: Bearer {keys['operator']}"
        # The corner cases of a hundred addresses take a minute: that is for the campaign.
        phases = "examples,coverage,fuzzing" if settings.get_current_profile_name() == "campaign" else "fuzzing"
        judged = judge(tmp_path, url, "--max-examples", "3", "-H", key, *more, phases=phases)
    assert judged.returncode == 0, judged.stdout[-5_000:] + judged.stderr[-1_000:]
    assert f"Selected: {sum(bool(operation.path) for operation in OPERATIONS.values())}/" in judged.stdout


def judge(
    folder: Path, url: str, *options: str, phases: str = "examples,coverage,fuzzing"
) -> subprocess.CompletedProcess[str]:
    """Its verdict on the document at an address, and on everything the document leads to."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", "all"]
    command += ["--phases", phases, "--generation-deterministic", "--continue-on-failure", "--no-color", *options]
    env = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(TABLES)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
