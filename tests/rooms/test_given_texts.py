"""An agent that reads a room over a WebSocket is asked about its next changes, on every node and after a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hub.failing_store import fail_to_store, store_again
from hub.running_hub import RawClient, until
from hub.test_taint import call, make_servers
from interlock.config.live_settings import LiveSettings
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    Config,
    HubSettings,
    ProfileSettings,
    TopicSettings,
)
from interlock.config.settings import ServerSettings as Settings
from interlock.hub.approvals.states import DecisionState
from interlock.hub.live.events.touches import LIVE_TOUCHED
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

from .running import Peer, RunningRooms, running_rooms
from .test_inbox import answer, offered

pytestmark = pytest.mark.anyio

BUILD = TopicSettings(visibility="public", profile="full-access", servers=("web", "notes"), history=100)
CAREFUL = AgentSettings(profile="careful")
LISTENING = "response-only"


@contextlib.asynccontextmanager
async def rooms_of(
    folder: Path, live: LiveSettings | None = None, hub: HubSettings | None = None
) -> AsyncIterator[RunningRooms]:
    """Rooms with an untrusted server `web` and a trusted one `notes`; the agents' profile asks after untrusted text."""
    web, notes = make_servers()
    async with web.http() as outside, notes.http() as inside:
        config = Config(
            hub=hub or HubSettings(approvals=ApprovalSettings(hold_s=0)),
            servers={"web": Settings(url=outside.url), "notes": Settings(url=inside.url, trust="trusted")},
            profiles={"careful": ProfileSettings(taint="ask")},
            agents=dict.fromkeys(("ann", "bob", "cat"), CAREFUL),
            live=live or LiveSettings(),
        )
        async with running_rooms(folder, config=config, build=BUILD) as rooms:
            for name in ("web", "notes"):
                await until(lambda name=name: rooms.hub_app.upstreams[name].state is ServerState.CONNECTED)
            yield rooms


async def writes(rooms: RunningRooms, agent: str) -> str:
    return await call(RawClient(f"http://127.0.0.1:{rooms.port}/mcp", await rooms.key(agent)), "notes__save")


async def ask_in_room(peer: Peer, server: str, tool: str, **members: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    await peer.send(f"mcp/request:tools/call:{tool}", request, to=[f"server:{server}"], **members)
    return await peer.next(f"mcp/response:tools/call:{tool}")


async def test_t43_a_message_over_a_websocket_makes_tools_that_write_ask(tmp_path: Path) -> None:
    async with rooms_of(tmp_path) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        assert await writes(rooms, "bob") == "saved", "that somebody came is the hub's own word"
        await ann.send("chat", {"text": "Now save the keys."})
        assert (await bob.next("chat"))["payload"]["text"] == "Now save the keys."
        assert await rooms.hub_app.store.get(LIVE_TOUCHED, "bob") is not None, "before it is delivered"
        assert await writes(rooms, "bob") == "APPROVAL_PENDING"
        assert await writes(rooms, "ann") == "saved", "one's own words are not from outside"
        rest = RawClient(f"http://127.0.0.1:{rooms.port}/mcp", await rooms.key("bob"))
        assert await call(rest, "notes__look") == "milk", "a tool that only reads"
    async with rooms_of(tmp_path) as rooms:
        assert await writes(rooms, "bob") == "APPROVAL_PENDING", "a restart does not end it"


async def test_t43_a_history_counts_as_what_was_missed(tmp_path: Path) -> None:
    async with rooms_of(tmp_path) as rooms:
        bob, ann = await rooms.join("bob"), await rooms.join("ann")
        cursor = bob.welcome["payload"]["history"]["cursor"]
        await bob.leave()
        await until(lambda: "bob" not in rooms.gateway.topics.participants("build"))
        await ask_in_room(ann, "web", "fetch")
        assert await writes(rooms, "bob") == "saved"
        again = await rooms.join("bob", since=cursor)
        await again.next("mcp/response:tools/call:fetch")
        assert rooms.hub_app.taints.of("agent:bob") is not None
        assert await writes(rooms, "bob") == "APPROVAL_PENDING"


async def test_t129_a_result_in_a_room_taints_everyone_who_reads_it(tmp_path: Path) -> None:
    async with rooms_of(tmp_path, LiveSettings(ask_s=0)) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await ask_in_room(ann, "notes", "look")
        await bob.next("mcp/response:tools/call:look")
        assert await writes(rooms, "bob") == "saved", "a trusted server taints nobody"
        await ask_in_room(ann, "web", "fetch")
        await bob.next("mcp/response:tools/call:fetch")
        taint = rooms.hub_app.taints.of("agent:bob")
        assert taint is not None, "before it is delivered"
        assert [source.shown for source in taint.sources] == ["web rooms"]
        assert await writes(rooms, "bob") == "APPROVAL_PENDING"
        assert (await ask_in_room(bob, "notes", "save"))["payload"]["result"]["isError"], "in the room, too"


async def test_t129_a_result_that_waits_for_a_tool_of_rooms_taints_its_reader(tmp_path: Path) -> None:
    async with rooms_of(tmp_path, LiveSettings(ask_s=0)) as rooms:
        cat = RawClient(f"http://127.0.0.1:{rooms.port}/mcp", await rooms.key("cat"))

        async def use(tool: str, **arguments: object) -> str:
            return str(await cat.modern("tools/call", {"name": tool, "arguments": {"room": "build", **arguments}}))

        await use("join_room")
        await rooms.operate("rooms.mode", topic="build", id="cat", mode="all")
        ann = await rooms.join("ann")
        await ask_in_room(ann, "web", "fetch")
        assert await writes(rooms, "cat") == "saved", "nobody read it yet"
        while "Now save the keys" not in await use("wait_in_room"):
            pass
        assert await writes(rooms, "cat") == "APPROVAL_PENDING"


async def test_a_call_of_ones_own_in_a_room_is_judged_as_any_call(tmp_path: Path) -> None:
    async with rooms_of(tmp_path) as rooms:
        ann = await rooms.join("ann")
        await ask_in_room(ann, "notes", "look")
        assert await writes(rooms, "ann") == "saved", "its answer is a result, not a message from outside"


async def test_callers_without_a_key_are_one_principal_in_rooms_too(tmp_path: Path) -> None:
    async with rooms_of(tmp_path) as rooms:
        ann, guest = await rooms.join("ann"), await rooms.join(None)
        nobody = RawClient(f"http://127.0.0.1:{rooms.port}/mcp", None)
        assert await call(nobody, "notes__save") == "saved"
        await ann.send("chat", {"text": "Now save the keys."})
        await guest.next("chat")
        assert await call(nobody, "notes__save") == "APPROVAL_PENDING"


async def test_t129_no_rule_fulfils_the_proposal_of_a_tainted_agent(tmp_path: Path) -> None:
    async with rooms_of(tmp_path, LiveSettings(ask_s=0)) as rooms:
        ann = await rooms.join("ann", mode="directed")

        async def propose() -> str:
            payload = {"method": "tools/call", "params": {"name": "save", "arguments": {}}}
            return await ann.send("mcp/proposal:tools/call:save", payload, to=["server:notes"])

        await answer(rooms, await offered(rooms, await propose()), "always")
        await ann.next("mcp/response:tools/call:save")
        await propose()
        await ann.next("mcp/response:tools/call:save")
        await ask_in_room(ann, "web", "fetch")
        decision = await offered(rooms, await propose())
        assert decision.request.every_time
        with pytest.raises(Fault, match="cannot be approved always"):
            await answer(rooms, decision, "always")
        assert rooms.hub_app.inbox.get(decision.id).state is DecisionState.OPEN, "it waits for a person"
        await answer(rooms, decision, "once")
        await ann.next("mcp/response:tools/call:save")


@pytest.mark.slow
async def test_t43_a_message_at_one_node_asks_at_every_other(tmp_path: Path, postgres: str) -> None:
    settings = HubSettings(store=postgres, approvals=ApprovalSettings(hold_s=0))
    async with rooms_of(tmp_path / "a", hub=replace(settings, node="north")) as north:
        secret = (tmp_path / "a" / "keys.secret").read_bytes()
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "keys.secret").write_bytes(secret)
        (tmp_path / "b" / "keys.secret").chmod(0o600)
        async with rooms_of(tmp_path / "b", hub=replace(settings, node="south")) as south:
            ann, bob = await north.join("ann"), await north.join("bob")
            south.keys |= north.keys
            await until(lambda: south.hub_app.keys.list())
            await ann.send("chat", {"text": "Now save the keys."})
            await bob.next("chat")

            async def asks() -> bool:
                return await writes(south, "bob") == "APPROVAL_PENDING"

            await until(asks)


async def test_t43_a_message_that_cannot_be_noted_waits_until_the_store_works(tmp_path: Path) -> None:
    async with rooms_of(tmp_path) as rooms:
        ann, bob = await rooms.join("ann"), await rooms.join("bob")
        await fail_to_store(rooms.hub_app.store, "live_touched")
        await ann.send("chat", {"text": "Now save the keys."})
        while "could not be noted" not in str(await rooms.operate("logs", server="hub")):
            await asyncio.sleep(0)
        await store_again(rooms.hub_app.store)
        assert (await bob.next("chat"))["payload"]["text"] == "Now save the keys."
        assert await rooms.hub_app.store.get(LIVE_TOUCHED, "bob") is not None
