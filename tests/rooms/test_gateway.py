"""Joining, talking and leaving over real WebSockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.config.settings import TopicSettings

from .running import running_rooms

pytestmark = pytest.mark.anyio

OPEN = TopicSettings(visibility="restricted", profile="full-access")
INBOX = {"id": "system:inbox", "capabilities": []}


async def test_a_newcomer_is_welcomed_first_and_then_everyone_learns_of_it(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann = await rooms.join("ann")
        assert ann.welcome["to"] == ["ann"]
        assert ann.welcome["from"] == "system:gateway"
        assert ann.welcome["payload"] == {
            "you": {"id": "ann", "capabilities": ["mcp/*", "chat"]},
            "participants": [INBOX],
        }
        joined = await ann.next("system/presence")
        assert joined["payload"]["event"] == "join"
        bob = await rooms.join("bob")
        assert bob.welcome["payload"]["participants"] == [INBOX, {"id": "ann", "capabilities": ["mcp/*", "chat"]}]
        seen = await ann.next("system/presence")
        assert seen["payload"] == {"event": "join", "participant": {"id": "bob", "capabilities": ["mcp/*", "chat"]}}
        await bob.leave()
        gone = await ann.next("system/presence")
        assert gone["payload"] == {"event": "leave", "participant": {"id": "bob"}}


async def test_an_envelope_passes_byte_for_byte_and_not_to_its_sender(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await bob.next("system/presence")
        text = (
            ' { "payload":{"text" : "h\\u00e9llo ☺", "n": 1.50e0}, "kind":"chat","from":"ann",'
            '"id":"1","protocol":"mcpx/v0.1", "extra":[1,2] } '
        )
        await ann.socket.send(text)
        assert await bob.socket.recv() == text
        assert [each["kind"] for each in await ann.nothing()] == ["system/presence", "system/presence"]


async def test_directed_participants_receive_only_what_is_theirs(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann = await rooms.join("ann")
        bob = await rooms.join("bob", mode="directed")
        eve = await rooms.join("eve")
        for to in (["bob"], ["eve"], [], ["eve", "bob"], ["nobody"]):
            await ann.send("chat", {"text": json.dumps(to)}, to=to)
        await ann.nothing()
        chats = [each["payload"]["text"] for each in await bob.nothing() if each["kind"] == "chat"]
        assert chats == ['["bob"]', "[]", '["eve", "bob"]']
        chats = [each["payload"]["text"] for each in await eve.nothing() if each["kind"] == "chat"]
        assert len(chats) == 5
