"""A hub that cannot start says why, and leaves nothing running."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.config.settings import Config, HubSettings
from interlock.hub.cannot_start import CannotStart
from interlock.rooms.gateway import Gateway
from interlock.store import StoreError
from interlock.web.run import serve

CONFIG = Config(hub=HubSettings(listen="127.0.0.1:0"))


async def test_a_store_that_cannot_be_opened_ends_the_listener(tmp_path: Path) -> None:
    (tmp_path / "hub.db").write_bytes(b"no database" * 1000)
    with pytest.raises(CannotStart):
        await serve(CONFIG, tmp_path, lambda ready: None)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("http ")]


async def test_a_store_that_fails_after_the_start_ends_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(gateway: Gateway) -> None:
        raise StoreError("the disk is full", "make room")

    monkeypatch.setattr(Gateway, "start", fails)
    (tmp_path / "run").mkdir()
    before = asyncio.all_tasks()
    with pytest.raises(CannotStart, match="the disk is full"):
        await serve(CONFIG, tmp_path, lambda ready: None)
    assert asyncio.all_tasks() == before
