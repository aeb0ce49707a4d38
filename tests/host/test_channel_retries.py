"""A turn of `[channels]` that could not begin is tried again by itself: its event does not wait for the next one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from hub.failing_store import fail_to_store, store_again
from hub.running_hub import until
from interlock.config.channel_settings import ChannelSettings
from interlock.events.types import AgentWoken, now_us
from interlock.hub.live.events import LIVE_PENDING, PendingEvent, pending_id

from .test_channels import WAKE, Chat, ready
from .test_hooks import hooked_hub


async def test_an_event_whose_turn_could_not_begin_gets_one_once_it_can(tmp_path: Path) -> None:
    chat = Chat()
    table = {"team": ChannelSettings(agent="local", incoming=("chat/chat:#general",))}
    async with hooked_hub(tmp_path, {"chat": chat.server}, hub={"channels": table, "live": WAKE}) as hub:
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
        hub_app.bus.publish(AgentWoken("live", hub_app.bus.next(), now_us(), "local", "wake_1", "chat"))
        while "began no turn" not in str(await hub.operate("logs", server="hub")):
            await asyncio.sleep(0)
        await store_again(hub_app.store)
        await until(lambda: bool(chat.turns), 20)
        await until(lambda: all(event.delivered for event in hub_app.live.deliveries.all()))
        assert len(chat.turns) == 1, "one turn, and no more"
