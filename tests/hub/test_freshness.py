"""Answers of a hub that cannot know which keys and grants are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.hub.auth import freshness
from interlock.hub.auth.freshness import STOOD_STILL_S, AccessFreshness
from interlock.hub.foundation import COLLECTIONS
from interlock.store import Store


async def test_a_hub_that_stood_still_does_not_blame_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(str(tmp_path / "hub.db"), COLLECTIONS)
    knowledge = AccessFreshness(lambda: -1.0)  # stale at any age
    knowledge.start(store, lambda: None)
    try:
        silent = knowledge.refusal()
        assert silent is not None
        assert "its database has not answered" in silent.message
        now_s = freshness.now_s
        monkeypatch.setattr(freshness, "now_s", lambda: now_s() + STOOD_STILL_S + 1)
        busy = knowledge.refusal()
        assert busy is not None
        assert "too busy" in busy.message
        assert "database can be reached" not in busy.hint
    finally:
        knowledge.close()
        await store.close()
