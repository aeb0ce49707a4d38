"""Results are judged beside the loop, however many of them come at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.hub.calls.dispatch import result_postprocessing
from interlock.judge import instructions, requests
from interlock.judge.results import judge_result

from .running_hub import RawClient, RunningHub, running_hub, text_of
from .test_validators import scripted, tool

TEXTS = {"short": "hi"}
SCRIPT: dict[str, Any] = {
    "tools": [tool("short")],
    "results": {name: {"content": [{"type": "text", "text": text}]} for name, text in TEXTS.items()},
}


class Judges:
    """Judges results as the hub does, and notes in which threads."""

    def __init__(self) -> None:
        self.on_loop: list[bool] = []

    def __call__(self, result: object) -> Any:
        self.on_loop.append(threading.current_thread() is threading.main_thread())
        return judge_result(result)


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    found = Judges()
    monkeypatch.setattr(result_postprocessing, "judge_result", found)
    return found


async def call(hub: RunningHub, name: str) -> str:
    return text_of(await RawClient(hub.url + "/mcp").modern("tools/call", {"name": f"s__{name}", "arguments": {}}))


@pytest.mark.parametrize("dropped", [instructions.let_go, requests.grammar.cache_clear])
async def test_a_short_result_compiles_nothing_on_the_loop(tmp_path: Path, judges: Judges, dropped: Any) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path, SCRIPT, scan_results="flag")}) as hub:
        dropped()
        assert await call(hub, "short") == "hi"
        assert await call(hub, "short") == "hi"
        assert judges.on_loop == [False, True]
