"""The hub does not judge a clean definition again after a restart, while the judges are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.hub.catalog import clean_definitions as clean
from interlock.hub.catalog import quarantine
from interlock.judge.definitions import judge_definition

from .running_hub import running_hub
from .test_quarantine import POISON, described, listed
from .test_validators import scripted

SCRIPT: dict[str, Any] = {"tools": [described("add", "Adds."), described("bad", POISON), described("sub", "Takes.")]}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The names of the definitions that were really judged."""
    seen: list[object] = []

    def judge(definition: Any) -> Any:
        seen.append(definition["name"])
        return judge_definition(definition)

    # In the place of the function that remembers what other hubs of this process judged.
    monkeypatch.setattr(quarantine, "judge_definition", judge)
    return seen


async def test_after_a_restart_only_what_was_flagged_is_judged_again(tmp_path: Path, judged: list[object]) -> None:
    servers = {"s": scripted(tmp_path, SCRIPT)}
    async with running_hub(tmp_path, servers) as hub:
        assert await listed(hub) == {"s__add", "s__sub"}
    assert sorted(map(str, judged)) == ["add", "bad", "sub"]
    judged.clear()
    async with running_hub(tmp_path, servers) as hub:
        assert await listed(hub) == {"s__add", "s__sub"}, "and what was flagged is still withheld"
    assert judged == ["bad"]


async def test_with_other_rules_everything_is_judged_again(
    tmp_path: Path, judged: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"s": scripted(tmp_path, SCRIPT)}
    async with running_hub(tmp_path, servers) as hub:
        await listed(hub)
    judged.clear()
    monkeypatch.setattr(clean, "judges", lambda: "others")
    async with running_hub(tmp_path, servers) as hub:
        await listed(hub)
    assert sorted(map(str, judged)) == ["add", "bad", "sub"]


async def test_a_definition_that_changed_is_judged_whatever_was_clean_before(
    tmp_path: Path, judged: list[object]
) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path, SCRIPT)}) as hub:
        await listed(hub)
    judged.clear()
    changed = {"tools": [described("new", "Adds. " + POISON), *SCRIPT["tools"][1:]]}
    async with running_hub(tmp_path, {"s": scripted(tmp_path, changed)}) as hub:
        assert await listed(hub) == {"s__sub"}
    assert sorted(map(str, judged)) == ["bad", "new"]
