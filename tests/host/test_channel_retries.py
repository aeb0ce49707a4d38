"""A turn of `[channels]` that could not begin is tried again by itself: its event does not wait for the next one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hub.failing_store import fail_to_store, store_again
from hub.running_hub import RunningHub, until
from interlock.config.channel_settings import ChannelSettings
from interlock.events.types import AgentWoken, now_us
from interlock.hub.live.events.documents import LIVE_PENDING, PendingEvent, pending_id

from .test_channels import WAKE, Chat, ready
from .test_hooks import hooked_hub

TABLE = {"team": ChannelSettings(agent="local", incoming=("chat/chat:#general",))}


async def test_an_event_whose_turn_could_not_begin_gets_one_once_it_can(tmp_path: Path) -> None:
    chat = Chat()
    async with hooked_hub(tmp_path, {"chat": chat.server}, hub={"channels": TABLE, "live": WAKE}) as hub:
        await fail_to_begin(hub)
        await logged(hub, "began no turn")
        await store_again(hub.hub_app.store)
        await until(lambda: bool(chat.turns), 20)
        await until(lambda: all(event.delivered for event in hub.hub_app.live.deliveries.all()))
        assert len(chat.turns) == 1, "one turn, and no more"


async def test_an_event_in_the_last_pause_begins_the_turn_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = Chat()
    for name in ("FIRST_PAUSE_S", "LAST_PAUSE_S"):
        monkeypatch.setattr(f"interlock.host.channels.{name}", 0.01)
    async with hooked_hub(tmp_path, {"chat": chat.server}, hub={"channels": TABLE, "live": WAKE}) as hub:
        await fail_to_begin(hub)
        await logged(hub, "the next try is with the next event")
        for name in ("FIRST_PAUSE_S", "LAST_PAUSE_S"):
            monkeypatch.setattr(f"interlock.host.channels.{name}", 3600.0)
        wake(hub)
        await logged(hub, "the next try is in 3600 s")
        await store_again(hub.hub_app.store)
        wake(hub)
        await until(lambda: bool(chat.turns), 20)


async def fail_to_begin(hub: RunningHub) -> None:
    """Wake an agent whose conversation cannot be stored."""
    await ready(hub)
    hub_app = hub.hub_app
    await fail_to_store(hub_app.store, "channel_conversations")
    content = [{"type": "text", "text": "The build has failed."}]
    event = PendingEvent(
        pending_id("local", 1.0), "local", "chat", "e1", "on.talk", time.time(), content, "wake", wake="wake_1"
    )
    async with hub_app.store.transaction() as change:
        change.put(LIVE_PENDING, event)
    await until(lambda: hub_app.live.deliveries.is_woken("local"))
    wake(hub)


def wake(hub: RunningHub) -> None:
    hub.hub_app.bus.publish(AgentWoken("live", hub.hub_app.bus.next(), now_us(), "local", "wake_1", "chat"))


async def logged(hub: RunningHub, text: str) -> None:
    while text not in str(await hub.operate("logs", server="hub")):
        await asyncio.sleep(0)
