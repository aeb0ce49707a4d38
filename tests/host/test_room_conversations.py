"""Conversations in rooms through a whole hub: a chat to their agent begins a turn, whose answer goes to the room."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.failing_store import fail_to_store, store_again
from hub.running_hub import RunningHub, until
from hub.test_journal import entries
from interlock.config.channel_settings import ChannelSettings
from interlock.config.settings import AgentSettings, RoomSettings, TopicSettings
from interlock.host import room_conversations
from interlock.hub.auth.keys import KEYS
from interlock.hub.live.events.touches import LIVE_TOUCHED
from interlock.rooms.participant import Participant
from interlock.store import Collection, Store

from . import test_hooks
from .test_hooks import hooked_hub
from .test_rollback import operate

TOPIC = TopicSettings(members={"assistant": "response-only", "ann": "response-only"})
IN_A_ROOM = {
    "channels": {"build": ChannelSettings(agent="assistant", room="build")},
    "agents": {"assistant": AgentSettings()},
    "rooms": RoomSettings(topics={"build": TOPIC}),
}


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", [{"when": "status", "text": "All is well."}])


async def test_an_agent_takes_part_in_a_room(tmp_path: Path) -> None:
    async with (
        hooked_hub(tmp_path, {}, hub=IN_A_ROOM) as hub,
        Participant(hub.url, "build", await hub.new_key("ann")) as ann,
    ):
        said: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            async for envelope in ann:
                if envelope.kind.type == "chat":
                    await said.put(envelope)

        listening = asyncio.ensure_future(listen())
        await until(lambda: "assistant" in ann.participants)
        await ann.chat("Hello, everyone.")
        await fail_to_store(hub.hub_app.store, LIVE_TOUCHED.name)
        await ann.chat("What is the status?", to=["assistant"])
        while "withheld, as they could not be noted" not in str(await hub.operate("logs", server="hub")):
            await asyncio.sleep(0)
        await store_again(hub.hub_app.store)
        answer = await asyncio.wait_for(said.get(), 60)
        assert answer.sender == "assistant"
        assert json.loads(answer.payload)["text"] == "All is well."
        (shown,) = (await operate(hub, "conversations.list"))["conversations"]
        assert (shown["agent"], shown["turns"]) == ("assistant", 1), "a chat to everyone begins no turn"
        listening.cancel()


class NewerKey(msgspec.Struct):
    """A key as this version cannot read it."""

    hash: str


async def test_an_agent_is_back_in_its_room_when_a_damaged_key_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged key may be of any principal, so nobody can say which key the agent has."""
    monkeypatch.setattr(room_conversations, "PAUSE_S", 0.01)
    newer, where = Collection(KEYS.name, NewerKey, key="hash"), tmp_path / "home" / "hub.db"
    where.parent.mkdir(mode=0o700)

    async def damage_a_key() -> None:
        store = await Store.open(where, (newer,))
        async with store.transaction() as change:
            change.put(newer, NewerKey("damaged"))
        await store.close()

    async def remove_it(hub: RunningHub) -> None:
        async with hub.hub_app.store.transaction() as change:
            change.delete(KEYS, "damaged")

    async def is_said(hub: RunningHub, text: str) -> bool:
        return text in str(await hub.operate("logs", server="hub"))

    async def failures(hub: RunningHub) -> list[str]:
        rows = [entry.record for entry in await entries(hub, event="dev.interlock.live_published")]
        return [row.reason or "" for row in rows if (row.details or {})["outcome"] == "failed"]

    await damage_a_key()
    async with hooked_hub(tmp_path, {}, hub=IN_A_ROOM) as hub:
        await until(lambda: is_said(hub, "[channels.build] is not in build: "))
        await remove_it(hub)
        async with Participant(hub.url, "build", await hub.new_key("ann")) as ann:
            await until(lambda: "assistant" in ann.participants)
            await damage_a_key()
            await until(lambda: bool(hub.hub_app.keys.mirror.problems))
            await ann.chat("What is the status?", to=["assistant"])
            await until(lambda: failures(hub))
            await remove_it(hub)
            await ann.chat("What is the status?", to=["assistant"])
            async with asyncio.timeout(60):
                async for envelope in ann:
                    if envelope.kind.type == "chat":
                        break
        assert json.loads(envelope.payload)["text"] == "All is well."
