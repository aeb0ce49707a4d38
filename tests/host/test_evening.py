"""The scripted evening of `examples/evening.py`: webhook, memory, a note, a redacted secret, a channel, a rollback."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_scripted_evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("CI_SECRET", "")
    happened = await importlib.import_module("evening").evening(tmp_path)
    assert happened["first"] == "Nothing is noted yet."
    assert happened["second"] == "I noted it. The deploy key in the log is [REDACTED]."
    assert (happened["noted"], happened["after"]) == (["Build 17 failed"], [])
    (step,) = happened["plan"]["steps"]
    assert (step["server"], step["to"], step["possible"]) == ("notes", "chk_0", True)
    assert happened["done"]["complete"]
    woken = happened["conversation"]["turns"][1]["messages"]
    assert [said["role"] for said in woken] == ["injected", "injected", "tool", "result", "assistant"]
    assert woken[0]["name"].startswith("hook:ci (")
    assert "Scaling mannequin installation" in woken[1]["text"]
    assert "sk-1234567890abcdef" not in str(happened)
