"""Floods of frames: each frame counts against its sender's rate, and none of them holds the loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from time import thread_time

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from attacks.watchdog import watching
from hub.running_hub import until
from interlock.config.settings import Rate, TopicSettings
from interlock.transports.websocket import WebSocketBounds, WebSocketConnection

from .running import RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

PUBLIC = TopicSettings(visibility="public", profile="full-access")
PING, EMPTY = Frame(Opcode.PING, b"").serialize(mask=True), Frame(Opcode.TEXT, b"").serialize(mask=True)


def envelope(**members: str) -> bytes:
    body = {"protocol": "mcpx/v0.1", "id": "same", "from": "x", "kind": "chat", "payload": {"text": "hi"}} | members
    return Frame(Opcode.TEXT, json.dumps(body).encode()).serialize(mask=True)


FLOODS = {
    "pings": PING * 40_000,
    "pongs": Frame(Opcode.PONG, b"").serialize(mask=True) * 40_000,
    "empty texts": EMPTY * 40_000,
    "malformed texts": Frame(Opcode.TEXT, b"{").serialize(mask=True) * 20_000,
    "pieces of one text": Frame(Opcode.TEXT, b"{", fin=False).serialize(mask=True)
    + Frame(Opcode.CONT, b"", fin=False).serialize(mask=True) * 40_000,
    "forged envelopes": envelope() * 10_000,
}


@contextlib.asynccontextmanager
async def guest(rooms: RunningRooms) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A participant without a key, on a plain socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rooms.port)
    head = f"GET /ws?topic=build HTTP/1.1\r\nHost: 127.0.0.1:{rooms.port}\r\nUpgrade: websocket\r\n"
    head += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def cost_of_reading(frames: bytes) -> float:
    """The processor time that reading some frames takes, without anything that answers them."""
    peer = ServerProtocol(state=State.OPEN)
    began = thread_time()
    peer.receive_data(frames)
    return thread_time() - began


async def test_t38_a_flood_of_frames_without_a_key_keeps_the_loop_free(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=PUBLIC) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        for name, flood in FLOODS.items():
            async with guest(rooms) as (reader, writer):
                with watching() as dog:
                    writer.write(flood)
                    for _ in range(5):
                        await ann.send("chat", {"text": name})
                        assert (await bob.next("chat"))["payload"]["text"] == name
                    assert await reader.read(1), "it is read"
                # Most of it is left in its connection: reading it all would cost twenty times as much.
                most_s = await asyncio.to_thread(cost_of_reading, PING * 2_000)
                assert dog.dearest_s < most_s, f"{name}: {dog.dearest_s * 1000:.1f} ms in {dog.what}"


@pytest.mark.parametrize("frame", [PING, EMPTY], ids=["control frames", "malformed messages"])
async def test_t38_every_frame_counts_against_the_rate_and_a_flood_is_told_so_once(
    tmp_path: Path, frame: bytes
) -> None:
    slow = TopicSettings(visibility="public", profile="full-access", rate=Rate(per_minute=100))
    async with running_rooms(tmp_path, build=slow) as rooms, guest(rooms) as (reader, writer):
        writer.write(frame * 5_000)
        pong_or_refusal = b"\x8a\x00" if frame is PING else b'"not_json"'
        got = b""
        while b'"rate_limited"' not in got:
            got += await asyncio.wait_for(reader.read(65536), 60)
        # The first ping beyond the rate is answered still: a participant that waits for its pong is there.
        assert 100 <= got.count(pong_or_refusal) <= 101
        while frame is PING and got.count(pong_or_refusal) < 102:
            got += await asyncio.wait_for(reader.read(65536), 60)
        assert got.count(b'"rate_limited"') == 1
        assert len(next(iter(rooms.gateway.rooms)).members) == 1, "it keeps its place"


async def test_t26_pongs_are_within_the_bound_of_unread_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebSocketConnection.__init__, "__defaults__", (WebSocketBounds(unread_bytes=65_536),))
    fast = TopicSettings(visibility="public", rate=Rate())
    async with running_rooms(tmp_path, build=fast) as rooms, guest(rooms) as (_, writer):
        room = next(iter(rooms.gateway.rooms))
        (member,) = room.members
        connection = member.connection
        assert isinstance(connection, WebSocketConnection)
        for transport, buffer in ((writer.transport, socket.SO_RCVBUF), (connection.transport, socket.SO_SNDBUF)):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 4096)
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        writer.write(Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 20_000)
        await until(lambda: room.counts.dropped == 1)
        assert connection.transport.get_write_buffer_size() < 2 * 65_536
