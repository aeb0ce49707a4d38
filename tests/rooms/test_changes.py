"""Changes while participants are connected: reloads, capabilities, operators, and what survives a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from interlock.config.settings import TopicSettings
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

from .running import RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

SHY = TopicSettings(visibility="restricted", profile="proposal-only")
PROPOSE = ["mcp/proposal:*", "mcp/response:*", "chat"]


async def test_a_reload_holds_for_the_next_envelope_and_is_announced(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await eve.next("system/presence")
        await rooms.reload(build=TopicSettings(visibility="restricted", members={"eve": "full-access"}))
        await eve.send("mcp/request:tools/list", {})
        welcome = await eve.next()
        assert welcome["kind"] == "system/welcome"
        assert welcome["payload"]["you"] == {"id": "eve", "capabilities": ["mcp/*", "chat"]}
        joined = await ann.next("system/presence")
        while joined["payload"]["participant"] != {"id": "eve", "capabilities": ["mcp/*", "chat"]}:
            joined = await ann.next("system/presence")
        assert joined["payload"]["event"] == "join"
        await ann.next("mcp/request:tools/list")


async def test_members_that_were_removed_and_topics_that_were_closed_end(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY, other=SHY) as rooms:
        ann, eve, bob = await rooms.join("ann"), await rooms.join("eve"), await rooms.join("bob", "other")
        await rooms.reload(build=TopicSettings(members={"ann": "full-access"}))
        for peer in (eve, bob):
            found, code, _ = await peer.closed()
            assert found[-1]["payload"]["error"] == "access_ended"
            assert code == 1008
        await ann.send("chat")
        headers = {"Authorization": f"Bearer {await rooms.key('bob')}"}
        assert (await rooms.refused("other", headers))[0] == 404


async def test_an_operator_changes_capabilities_over_http(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        boss = await rooms.hub_app.keys.create("boss", "admin")
        body = {"add": ["mcp/request:tools/*"], "remove": []}
        status, answer = await post(rooms, "/admin/participants/eve/capabilities?topic=build", boss, body)
        assert status == 200, answer
        assert answer["participantId"] == "eve"
        assert answer["oldCapabilities"] == PROPOSE
        assert answer["newCapabilities"] == [*PROPOSE, "mcp/request:tools/*"]
        assert answer["modifiedBy"] == "boss"
        assert "modifiedAt" in answer
        assert (await eve.next("system/welcome"))["payload"]["you"]["capabilities"] == answer["newCapabilities"]
        await eve.send("mcp/request:tools/list", {})
        await ann.next("mcp/request:tools/list")
        agent = await rooms.key("eve")
        assert (await post(rooms, "/admin/participants/eve/capabilities?topic=build", agent, body))[0] == 403
        assert (await post(rooms, "/admin/participants/eve/capabilities?topic=none", boss, body))[0] == 404
        assert (await post(rooms, "/admin/participants/who/capabilities?topic=build", boss, body))[0] == 404
        bad = {"add": ["system/error"]}
        assert (await post(rooms, "/admin/participants/eve/capabilities?topic=build", boss, bad))[0] == 400
        bad = {"remove": ["mcp/request:resources/*"]}
        status, answer = await post(rooms, "/admin/participants/eve/capabilities?topic=build", boss, bad)
        assert (status, "does not have" in json.dumps(answer)) == (400, True)


async def test_capabilities_that_are_taken_away_at_the_same_time_are_all_away(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        await rooms.join("eve")
        changes = [{"id": "eve", "topic": "build", "add": [], "remove": [text]} for text in PROPOSE]
        await asyncio.gather(*(rooms.operate("rooms.capabilities", **each) for each in changes))
        assert rooms.gateway.topics.participants("build")["eve"] == ()


async def test_a_capability_that_was_taken_away_stays_away_after_a_restart(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        eve = await rooms.join("eve")
        found = await rooms.operate("rooms.capabilities", id="eve", add=["mcp/request:*/list"], remove=["chat"])
        assert found["topic"] == "build"
        await eve.send("chat")
        assert (await eve.error())["payload"]["error"] == "capability_violation"
        key = await rooms.key("eve")
    async with running_rooms(tmp_path, build=SHY) as rooms:
        rooms.keys["eve"] = key
        eve = await rooms.join("eve")
        assert eve.welcome["payload"]["you"]["capabilities"] == [
            "mcp/proposal:*",
            "mcp/response:*",
            "mcp/request:*/list",
        ]
        found = await rooms.operate("rooms.capabilities", id="eve", add=["chat"], remove=["mcp/request:*/list"])
        assert found["newCapabilities"] == ["mcp/proposal:*", "mcp/response:*", "chat"]


async def test_operators_see_topics_and_who_is_there(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY, empty=TopicSettings()) as rooms:
        await rooms.join("eve", mode="directed")
        build, empty = (await rooms.operate("rooms.list"))["rooms"]
        (row,) = build["participants"]
        assert (row["id"], row["mode"], row["capabilities"]) == ("eve", "directed", PROPOSE)
        assert (empty["topic"], empty["visibility"], empty["participants"]) == ("empty", "private", [])
        with pytest.raises(Fault, match="no topic"):
            await rooms.operate("rooms.list", topic="none")


async def test_a_mode_changes_at_run_time(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        for mode, heard in (("directed", ["to all"]), ("all", ["to bob", "to all"])):
            assert (await rooms.operate("rooms.mode", id="eve", mode=mode))["mode"] == mode
            await ann.send("chat", {"text": "to bob"}, to=["bob"])
            await ann.send("chat", {"text": "to all"})
            await ann.nothing()
            assert [one["payload"]["text"] for one in await eve.nothing() if one["kind"] == "chat"] == heard
        with pytest.raises(Fault, match="no participant 'nobody' in 'build'"):
            await rooms.operate("rooms.mode", id="nobody", mode="all", topic="build")


async def test_the_hubs_own_user_joins_with_a_ticket_that_is_good_once(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY, other=SHY) as rooms:
        made = await rooms.operate("rooms.join", topic="build")
        headers = {"Authorization": f"Bearer {made['ticket']}"}
        async with connect(made["url"], additional_headers=headers, compression=None) as socket:
            welcome = json.loads(await socket.recv())
            assert welcome["payload"]["you"]["id"] == rooms.operations.hub_user.id
            assert (await rooms.refused("build", headers))[0] == 401, "it is good once"
        made = await rooms.operate("rooms.join", topic="build")
        headers = {"Authorization": f"Bearer {made['ticket']}"}
        assert (await rooms.refused("other", headers))[0] == 401, "it is for one topic"
        assert (await rooms.refused("build", headers))[0] == 401, "and spent by the attempt"
        with pytest.raises(Fault, match="only the user whose hub it is"):
            await rooms.operate("rooms.join", Principal("boss", "admin"), topic="build")


async def test_violations_are_announced_where_the_topic_says_so(tmp_path: Path) -> None:
    loud = TopicSettings(visibility="restricted", profile="response-only", announce_violations=True)
    async with running_rooms(tmp_path, build=loud) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await eve.send("mcp/request:tools/call:rm", {})
        await eve.error()
        notice = await ann.error()
        assert notice["payload"]["participant"] == "eve"
        assert notice["payload"]["attempted_kind"] == "mcp/request:tools/call:rm"


async def test_metrics_count_what_happens(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await eve.send("chat")
        await ann.next("chat")
        await eve.send("mcp/request:tools/list", {})
        await eve.error()
        boss = await rooms.hub_app.keys.create("boss", "admin")
        page = await get(rooms, "/metrics", boss)
        for line in (
            'interlock_room_participants{topic="build"} 2.0',
            'interlock_room_envelopes_total{topic="build"} 1.0',
            'interlock_room_refused_total{reason="capability_violation",topic="build"} 1.0',
        ):
            assert line in page


async def post(rooms: RunningRooms, path: str, key: str, body: object) -> tuple[int, Any]:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    answer = await _exchange(rooms, head, key, data)
    return int(answer.split(b" ", 2)[1]), json.loads(answer.partition(b"\r\n\r\n")[2])


async def get(rooms: RunningRooms, path: str, key: str) -> str:
    return (await _exchange(rooms, f"GET {path} HTTP/1.1\r\n", key, b"")).decode()


async def _exchange(rooms: RunningRooms, head: str, key: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", rooms.port)
    rest = f"host: 127.0.0.1:{rooms.port}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    writer.write((head + rest).encode() + data)
    answer = await reader.read()
    writer.close()
    return answer
