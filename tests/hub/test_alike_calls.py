"""Calls that are like the one before them on a connection are judged, carried and recorded like that one."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from interlock.hub.principals import local_person
from interlock.protocols.mcp.alike import AlikeCall

from .house import Kept, child, house, text_of

SERVERS = {"busy": child("busy_server.py")}


async def test_each_call_gets_its_own_answer_and_its_own_row(tmp_path: Path) -> None:
    async with house(tmp_path, SERVERS) as hub, Kept(hub.url) as client:
        rows: list[str] = []
        hub.assembly.recorder.follow(lambda batch: rows.extend(entry.arguments for entry in batch if entry.name))
        with patch.object(AlikeCall, "read", autospec=True, side_effect=AlikeCall.read) as read:
            for number in range(20):
                answer = await client.call("busy__echo", b'{"text":"no. %d"}' % number, number)
                assert (answer["id"], text_of(answer)) == (number, f"no. {number}")
        assert read.call_count >= 15, "they were alike, and that was seen"
        await hub.assembly.recorder.flushed()
        assert len(set(rows)) == 20


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"text":5}',
        b"{}",
        b'{"text":"x","more":1}',
        b'{"text":"x","text":"y"}',
        b'{"text":"x"},"name":"busy__slow","arguments":{}',
        b'{"text":"\\ud800"}',
        b'{"text":"x"',
        b"[]",
        b'  {"text" : "x"}  ',
        b'{"text":"%b"}' % (b"z" * 5000),
    ],
)
async def test_what_is_wrong_with_one_of_them_is_found_as_if_it_were_the_first(
    tmp_path: Path, arguments: bytes
) -> None:
    async with house(tmp_path, SERVERS) as hub:
        async with Kept(hub.url) as first:
            told = await first.call("busy__echo", arguments, 7)
        async with Kept(hub.url) as client:
            for number in range(3):
                await client.call("busy__echo", b'{"text":"well"}', number)
            assert await client.call("busy__echo", arguments, 7) == told
            assert text_of(await client.call("busy__echo", b'{"text":"again"}', 8)) == "again"


async def test_a_key_that_is_taken_back_is_refused_in_the_middle_of_like_calls(tmp_path: Path) -> None:
    async with house(tmp_path, SERVERS) as hub:
        key = await hub.new_key("ci")
        await hub.allow("ci", "busy")
        async with Kept(hub.url, key) as client:
            for number in range(3):
                assert text_of(await client.call("busy__echo", b'{"text":"x"}', number)) == "x"
            await hub.assembly.key_desk.revoke(local_person("tester"), b'{"agent":"ci"}')
            told = await client.call("busy__echo", b'{"text":"x"}', 4)
            assert "key is not known" in told["error"]["message"]


async def test_what_is_denied_meanwhile_is_refused_to_like_calls_too(tmp_path: Path) -> None:
    async with house(tmp_path, SERVERS) as hub:
        key = await hub.new_key("ci")
        await hub.allow("ci", "busy")
        async with Kept(hub.url, key) as client:
            for number in range(3):
                assert text_of(await client.call("busy__echo", b'{"text":"x"}', number)) == "x"
            await hub.deny("ci", "busy")
            told = await client.call("busy__echo", b'{"text":"x"}', 4)
            assert told["error"]["message"].startswith("Unknown tool"), told
