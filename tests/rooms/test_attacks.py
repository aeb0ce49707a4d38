"""Bad input over real WebSockets: each is answered with `system/error`, counted, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from websockets.asyncio.client import connect
from websockets.frames import Close, CloseCode, Frame, Opcode

from hub.running_hub import until
from interlock.config.settings import Rate, TopicSettings
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.rooms.frame_queue import AT_ONCE, MAX_FRAMES, MAX_WAITING
from interlock.rooms.member import RoomMember
from interlock.rooms.tickets import Admission
from interlock.transports.websocket import WebSocketConnection, text_frame
from interlock.wire.errors import Fault

from .running import RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

OPEN = TopicSettings(visibility="restricted", profile="full-access")
SHY = TopicSettings(visibility="restricted", profile="proposal-only")


def raw(**changes: Any) -> str:
    envelope = {"protocol": "mcpx/v0.1", "id": "x-1", "from": "eve", "kind": "chat", "payload": {"text": "hi"}}
    return json.dumps({name: value for name, value in (envelope | changes).items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "reason", "correlation"),
    [
        (raw(**{"from": "ann"}), "from_mismatch", "x-1"),
        (raw(**{"from": "system:gateway"}), "from_mismatch", "x-1"),
        (raw(**{"from": ...}), "missing_member", "x-1"),
        (raw(**{"from": ""}), "invalid_participant", "x-1"),
        (raw(**{"from": ["eve"]}), "wrong_type", "x-1"),
        (raw(kind="system/error"), "capability_violation", "x-1"),
        (raw(kind="system/welcome"), "capability_violation", "x-1"),
        (raw(kind="system/anything"), "capability_violation", "x-1"),
        (raw(kind="mcp/request:tools/call:rm"), "capability_violation", "x-1"),
        (raw(kind="presence"), "invalid_kind", "x-1"),
        (raw(kind="mcp/request"), "invalid_kind", "x-1"),
        (raw(protocol="mcp-x/v0"), "unsupported_protocol", "x-1"),
        (raw(protocol="mcpx/v0.2"), "unsupported_protocol", "x-1"),
        (raw(payload=[1]), "not_an_object", "x-1"),
        (raw(payload={"text": "hi", "n": 0}).replace(": 0}", ": 1e999}"), "invalid_payload", "x-1"),
        (raw(payload=...), "missing_member", "x-1"),
        (raw(ts="yesterday"), "invalid_timestamp", "x-1"),
        (raw(to="ann"), "wrong_type", "x-1"),
        (raw(to=["ann"] * 65), "too_many_recipients", "x-1"),
        (raw(id="x" * 129), "invalid_id", None),
        (raw(kind="mcp/proposal:tools/call", correlation_id="p"), "correlation_forbidden", "x-1"),
        (raw(kind="mcp/response:tools/call"), "correlation_missing", "x-1"),
        (raw(kind="mcp/withdraw", correlation_id="nothing"), "unknown_proposal", "x-1"),
        (raw()[:-1], "not_json", None),
        ("", "not_json", None),
        ("null", "not_an_object", None),
        ('{"id":"a","id":"b"}', "duplicate_member", None),
        (raw(ID="x-2"), "wrong_case", None),
        (raw(payload={"text": "x" * 600_000}), "too_large", None),
        (raw(payload={"text": json.loads("[" * 100 + "]" * 100)}), "nested_too_deeply", None),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_t33_a_bad_envelope_is_answered_and_the_connection_kept(
    shy: RunningRooms, text: str, reason: str, correlation: str | None
) -> None:
    ann, eve = await shy.join("ann"), await shy.join("eve")
    await eve.socket.send(text)
    error = await eve.error()
    assert error["payload"]["error"] == reason
    assert error.get("correlation_id") == correlation
    assert (error["from"], error["to"]) == ("system:gateway", ["eve"])
    assert error["payload"]["your_capabilities"] == ["mcp/proposal:*", "mcp/response:*", "chat"]
    # The connection is kept, and nobody else has seen anything of it.
    await eve.send("chat", {"text": "still here"})
    assert (await ann.next("chat", "system/error", "system/welcome"))["payload"] == {"text": "still here"}
    await ann.leave()
    await eve.leave()


@pytest.fixture(scope="module")
async def shy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    async with running_rooms(tmp_path_factory.mktemp("rooms"), build=SHY) as rooms:
        yield rooms


async def test_a_violation_names_the_kind_and_the_capabilities_and_is_recorded(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=SHY) as rooms:
        eve = await rooms.join("eve")
        sent = await eve.send("mcp/request:tools/call:rm", {})
        error = await eve.error()
        assert error["correlation_id"] == sent
        assert error["payload"]["attempted_kind"] == "mcp/request:tools/call:rm"
        assert error["payload"]["message"] == "You lack capability for 'mcp/request:tools/call:rm'"
        for _ in range(20):
            await eve.send("mcp/request:tools/call:rm", {})
            await eve.error()
        room = next(iter(rooms.gateway.rooms))
        assert room.counts.refused["capability_violation"] == 21
        await eve.leave()
        await until(lambda: not room.members)
        await rooms.hub_app.recorder.flushed()
        found = await rooms.operate("audit.search", event="dev.interlock.room_refused")
        rows = [entry["record"] for entry in found["entries"]]
        assert [(row["actor"], row["rule"]) for row in rows] == [("eve", "capability_violation")] * 2
        assert sum(row["details"]["count"] for row in rows) == 21, "two records stand for all of them"


async def test_a_binary_message_is_refused_and_the_connection_kept(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await eve.socket.send(raw().encode())
        assert (await eve.error())["payload"]["error"] == "not_json"
        await eve.send("chat")
        await ann.next("chat")


async def test_a_text_message_that_is_not_utf8_ends_the_connection_as_websocket_says(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        eve = await rooms.join("eve")
        await eve.socket.send(b'{"id":"\xff"}', text=True)
        assert (await eve.closed())[1] == 1007


async def test_a_pong_keeps_its_place_among_the_answers(tmp_path: Path) -> None:
    """A ping between two envelopes of one packet, the first of them fragmented around another ping."""
    async with running_rooms(tmp_path, build=TopicSettings(visibility="restricted", profile="full-access")) as rooms:
        reader, writer = await asyncio.open_connection("127.0.0.1", rooms.port)
        head = f"GET /ws?topic=build HTTP/1.1\r\nHost: 127.0.0.1:{rooms.port}\r\nUpgrade: websocket\r\n"
        head += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        writer.write((head + f"Authorization: Bearer {await rooms.key('ann')}\r\n\r\n").encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            Frame(Opcode.TEXT, b"no ", fin=False).serialize(mask=True)
            + Frame(Opcode.PING, b"one").serialize(mask=True)
            + Frame(Opcode.CONT, b"envelope").serialize(mask=True)
            + Frame(Opcode.PING, b"two").serialize(mask=True)
            + Frame(Opcode.TEXT, b"a message that ends with ", fin=False).serialize(mask=True)
            + Frame(Opcode.CLOSE, Close(CloseCode.NORMAL_CLOSURE, "").serialize()).serialize(mask=True)
        )
        got = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        # RFC 6455: the close may come in the middle of a message, and is answered with its own code.
        order = [got.index(said) for said in (b"\x8a\x03one", b"not_json", b"\x8a\x03two", b"\x88\x02\x03\xe8")]
        assert order == sorted(order)


async def test_nothing_is_written_to_a_connection_that_is_being_lost() -> None:
    """A peer that vanished is only told of in the next turn of the loop; until then every write would be logged."""
    transport = Mock(asyncio.Transport, **{"is_closing.return_value": True, "get_write_buffer_size.return_value": 0})
    connection = WebSocketConnection(b"", Mock())
    connection.transport = transport
    assert connection.send(text_frame(b"{}"))
    transport.write.assert_not_called()


async def test_a_message_beyond_all_bounds_ends_the_connection(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await eve.socket.send("x" * (2 * 1024 * 1024))
        assert (await eve.closed())[1] == 1009
        gone = await ann.next("system/presence")
        while gone["payload"]["event"] != "leave":
            gone = await ann.next("system/presence")
        assert gone["payload"]["participant"] == {"id": "eve"}


async def test_a_used_id_is_refused_for_everyone(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await ann.send("chat", id="once")
        await eve.next("chat")
        for peer in (eve, ann):
            await peer.send("chat", id="once")
            assert (await peer.error())["payload"]["error"] == "duplicate_id"
        await eve.send("chat", id=ann.welcome["id"])
        assert (await eve.error())["payload"]["error"] == "duplicate_id"


async def test_a_second_connection_replaces_the_first_which_is_told(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, first = await rooms.join("ann"), await rooms.join("eve")
        second = await rooms.join("eve")
        found, code, reason = await first.closed()
        assert found[-1]["payload"]["error"] == "replaced"
        assert (code, reason) == (1008, "replaced")
        await second.send("chat")
        seen = [each for each in await ann.nothing() if each["kind"] in ("system/presence", "chat")]
        # Ann's own join, Eve's join, the chat: nothing of the change of connections.
        assert [each["kind"] for each in seen] == ["system/presence", "system/presence", "chat"]


async def test_a_flood_is_slowed_and_answered(tmp_path: Path) -> None:
    slow = TopicSettings(visibility="restricted", profile="full-access", rate=Rate(per_minute=50))
    async with running_rooms(tmp_path, build=slow) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        for number in range(60):
            await eve.send("chat", {"text": str(number)}, id=f"flood-{number}")
        error = await eve.error()
        assert error["payload"]["error"] == "rate_limited"
        assert error["correlation_id"] == "flood-49", "the join counts as one"
        await ann.send("chat", {"text": "mine"})
        assert (await eve.next("chat"))["payload"] == {"text": "mine"}
        chats = [each for each in await ann.nothing() if each["kind"] == "chat"]
        assert [each["payload"]["text"] for each in chats] == [str(number) for number in range(49)]


async def test_joining_again_and_again_is_limited(tmp_path: Path) -> None:
    slow = TopicSettings(visibility="restricted", rate=Rate(per_minute=3))
    async with running_rooms(tmp_path, build=slow) as rooms:
        for _ in range(3):
            await (await rooms.join("eve")).leave()
        headers = {"Authorization": f"Bearer {await rooms.key('eve')}"}
        status, body = await rooms.refused("build", headers)
        assert status == 429
        assert "3 envelopes in 60 seconds" in json.dumps(body)


async def test_a_participant_that_never_reads_is_cut_off_and_the_others_are_served(tmp_path: Path) -> None:
    fast = TopicSettings(visibility="restricted", profile="full-access", rate=Rate())
    async with running_rooms(tmp_path, build=fast) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        deaf = await connect(
            rooms.url("build"),
            additional_headers={"Authorization": f"Bearer {await rooms.key('deaf')}"},
            compression=None,
            max_queue=1,
            ping_interval=None,
        )
        deaf.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await bob.next("system/presence")
        deaf.transport.pause_reading()
        room = next(iter(rooms.gateway.rooms))
        text, sent = "x" * 200_000, 0
        async with asyncio.timeout(60):
            while room.counts.dropped == 0:
                await ann.send("chat", {"text": text})
                assert len((await bob.next("chat"))["payload"]["text"]) == len(text)
                sent += 1
        assert sent < 120, "what waits for one participant is bounded"
        assert {member.id for member in room.members} == {"ann", "bob"}
        left = await bob.next("system/presence")
        while left["payload"]["event"] != "leave":
            left = await bob.next("system/presence")
        assert left["payload"]["participant"] == {"id": "deaf"}
        deaf.transport.abort()


class SilentConnection:
    """A participant's connection that takes frames until `full`, and whose participant reads none."""

    def __init__(self, member: RoomMember) -> None:
        self.member = member
        self.full = False
        self.frames: list[bytes] = []
        member.attach(self)
        member.on_open()

    def send(self, frame: bytes) -> bool:
        if not self.full:
            self.frames.append(frame)
        return not self.full

    def close(self, code: int, reason: str, last: bytes = b"") -> None:
        self.frames.append(last)
        self.member.on_lost()

    def resume(self) -> None:
        """It sends nothing."""


async def test_many_participants_that_never_read_are_cut_off_and_their_sender_stays(tmp_path: Path) -> None:
    public = TopicSettings(visibility="public", profile="full-access", rate=Rate())
    async with running_rooms(tmp_path, build=public) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        silent = [
            SilentConnection(rooms.gateway.topics.admit("build", Admission(None), ReceiveMode.ALL)) for _ in range(200)
        ]
        for one in silent:
            one.full = True
            one.frames.clear()
        await ann.send("chat", {"text": "hello"})
        assert (await bob.next("chat"))["payload"] == {"text": "hello"}
        left = set()
        while len(left) < len(silent):
            presence = (await bob.next("system/presence"))["payload"]
            if presence["event"] == "leave":
                left.add(presence["participant"]["id"])
        assert left == {one.member.id for one in silent}
        room = next(iter(rooms.gateway.rooms))
        assert {member.id for member in room.members} == {"ann", "bob"}
        assert room.counts.dropped == len(silent)
        for one in silent:
            (last,) = one.frames
            assert b"too_slow" in last, "it learns why, and nothing else"
        await ann.send("chat", {"text": "still here"})
        assert (await bob.next("chat"))["payload"] == {"text": "still here"}


async def test_a_burst_to_a_large_topic_waits_with_its_sender_and_arrives_in_order(tmp_path: Path) -> None:
    large = TopicSettings(visibility="public", profile="full-access", rate=Rate(), participants=1_000)
    async with running_rooms(tmp_path, build=large) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        for _ in range(2 * AT_ONCE):
            SilentConnection(rooms.gateway.topics.admit("build", Admission(None), ReceiveMode.ALL))
        (room,) = rooms.gateway.rooms
        await until(lambda: not room.undelivered)
        longest = 0

        async def observe() -> None:
            nonlocal longest
            while True:
                longest = max(longest, room.undelivered)
                await asyncio.sleep(0)

        observing = asyncio.create_task(observe())
        for number in range(4 * MAX_WAITING):
            await ann.send("chat", {"text": str(number)})
        got = [(await bob.next("chat"))["payload"]["text"] for _ in range(4 * MAX_WAITING)]
        observing.cancel()
        assert got == [str(number) for number in range(4 * MAX_WAITING)]
        assert 1 < longest <= MAX_WAITING


async def test_nobody_comes_while_too_many_frames_wait_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = TopicSettings(visibility="public", profile="full-access", rate=Rate())
    async with running_rooms(tmp_path, build=public) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        touches, begun, stored = rooms.hub_app.live.touches, asyncio.Event(), asyncio.Event()
        store = touches.store_round

        async def hang() -> None:
            begun.set()
            await stored.wait()
            await store()

        monkeypatch.setattr(touches, "store_round", hang)
        await ann.send("chat", {"text": "hello"})
        await begun.wait()
        (room,) = rooms.gateway.rooms
        with pytest.raises(Fault, match="Too many envelopes wait in the topic") as refused:
            for _ in range(2 * MAX_FRAMES):
                SilentConnection(rooms.gateway.topics.admit("build", Admission(None), ReceiveMode.ALL)).member.on_lost()
        assert refused.value.name == "RESOURCE_EXHAUSTED"
        assert room.undelivered < MAX_FRAMES + 4
        stored.set()
        assert (await bob.next("chat"))["payload"] == {"text": "hello"}
        await until(lambda: not room.undelivered)
        await (await rooms.join("eve")).leave()


async def test_a_full_topic_takes_nobody_else_and_its_participants_come_back(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(visibility="restricted", participants=1)) as rooms:
        ann = await rooms.join("ann")
        key = {"Authorization": f"Bearer {await rooms.key('eve')}"}
        status, told = await rooms.refused("build", key)
        assert (status, "has 1 participants" in json.dumps(told)) == (503, True)
        again = await rooms.join("ann")
        await again.leave()
        await ann.closed()


async def test_upgrades_are_refused_before_they_happen(tmp_path: Path) -> None:
    topics = {
        "build": OPEN,
        "closed": TopicSettings(members={"ann": "full-access"}),
        "open": TopicSettings(visibility="public"),
    }
    async with running_rooms(tmp_path, **topics) as rooms:
        key = {"Authorization": f"Bearer {await rooms.key('eve')}"}
        assert (await rooms.refused("nowhere", key))[0] == 404
        assert (await rooms.refused("closed", key))[0] == 404, "a private topic is unknown to others"
        assert (await rooms.refused("build"))[0] == 401
        unknown = [await rooms.refused(topic) for topic in ("closed", "nowhere")]
        (status, told), (other_status, other_told) = unknown
        same = {name for name in told if told[name] == other_told.get(name)}
        assert (status, told.keys() - same) == (other_status, {"trace_id"}), "without a key neither is known"
        assert (await rooms.refused("build", {"Authorization": "Bearer wrong"}))[0] == 401
        assert (await rooms.refused("open", {"Authorization": "Bearer wrong"}))[0] == 401, "never taken for a guest"
        assert (await rooms.refused("build", key | {"Origin": "https://evil.example"}))[0] == 403
        assert (await rooms.refused("build", key, mode="some"))[0] == 400
        assert (await rooms.refused("build&topic=open", key))[0] == 400
        assert (await rooms.refused("", key))[0] == 400
        guest = await rooms.join(None, "open")
        assert guest.id.startswith("guest-")
        other = await rooms.join(None, "open")
        assert other.id != guest.id


async def test_a_browser_sends_its_key_as_a_subprotocol_which_is_never_echoed(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        key = await rooms.key("eve")
        origin = f"http://127.0.0.1:{rooms.port}"
        offered: Any = ["mcpx.v0.1", f"bearer.{key}"]
        async with connect(rooms.url("build"), subprotocols=offered, origin=origin) as page:  # type: ignore[arg-type]
            assert page.subprotocol == "mcpx.v0.1"
            assert json.loads(await page.recv())["payload"]["you"]["id"] == "eve"
        headers = {"Authorization": f"Bearer {key}", "Sec-WebSocket-Protocol": f"mcpx.v0.1, bearer.{key}"}
        assert (await rooms.refused("build", headers))[0] == 400


async def test_a_revoked_key_ends_its_connection_at_the_next_envelope(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        ann, eve = await rooms.join("ann"), await rooms.join("eve")
        await rooms.operate("keys.revoke", agent="eve")
        await eve.send("chat")
        found, code, reason = await eve.closed()
        assert found[-1]["payload"]["error"] == "access_ended"
        assert (code, reason) == (1008, "access_ended")
        assert not [each for each in await ann.nothing() if each["kind"] == "chat"]


async def test_plain_http_at_the_address_is_told_to_upgrade(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=OPEN) as rooms:
        reader, writer = await asyncio.open_connection("127.0.0.1", rooms.port)
        writer.write(b"GET /ws?topic=build HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % rooms.port)
        assert b" 426 " in await reader.readline()
        writer.close()
