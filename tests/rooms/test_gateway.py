"""Joining, talking and leaving over real WebSockets."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from conformance.packages import NODE
from interlock.config.settings import TopicSettings

from .running import running_rooms

pytestmark = pytest.mark.anyio

OPEN = TopicSettings(visibility="restricted", profile="full-access")
DOCS = Path(__file__).parents[2] / "docs" / "rooms-protocol.md"
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


async def test_the_envelope_and_the_participant_of_the_docs_work(tmp_path: Path) -> None:
    page = DOCS.read_text()
    (envelope,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (program,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "participant.mjs"
    file.write_text(program)
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, coder = await rooms.join("ann"), await rooms.join("coder")
        await coder.socket.send(envelope)
        assert (await ann.next("mcp/proposal:tools/call:write_file"))["from"] == "coder"
        environ = {"INTERLOCK_KEY": await rooms.key("greeter")}
        line = (NODE, str(file), f"ws://127.0.0.1:{rooms.port}", "build")
        process = await asyncio.create_subprocess_exec(*line, env=environ)
        try:
            assert (await ann.next("chat"))["payload"]["text"] == "I can greet."
            call = {"name": "greet", "arguments": {"name": "Ann"}}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            await ann.send("mcp/request:tools/call:greet", asked, to=["greeter"])
            answer = await ann.next("mcp/response:tools/call:greet")
            assert answer["payload"]["result"]["content"] == [{"type": "text", "text": "Hello Ann"}]
        finally:
            process.kill()
            await process.wait()
