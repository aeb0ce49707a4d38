"""Tool servers in a topic: `server:ID` answers through the hub's own pipeline, as the sender of the request."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from attacks.watchdog import watching
from hub.running_hub import RawClient, child, until
from interlock.config.live_settings import LiveSettings
from interlock.config.settings import Config, TopicSettings
from interlock.hub.auth.access_methods import GrantParams
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState

from .running import Peer, RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

MEMBERS = {"ann": "full-access", "coder": "proposal-only", "reader": "readers", "bob": "full-access"}
BUILD = TopicSettings(visibility="public", members=MEMBERS, profile="full-access", servers=("busy", "none"))
STRICT = TopicSettings(visibility="restricted", profile="full-access", servers=("busy",), strict=True)
OTHER = TopicSettings(visibility="restricted", profile="full-access")
READERS = {"readers": ("mcp/request:tools/list", "mcp/request:tools/call:echo", "chat")}
BUSY = "server:busy"


@pytest.fixture(scope="module")
async def rooms(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningRooms]:
    home = tmp_path_factory.mktemp("servers")
    config = Config(servers={"busy": child("busy_server.py")}, live=LiveSettings(ask_s=0))
    async with running_rooms(home, None, READERS, config=config, build=BUILD, strict=STRICT, other=OTHER) as rooms:
        await until(lambda: rooms.hub_app.upstreams["busy"].state is ServerState.CONNECTED)
        yield rooms


def request(method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def ask(peer: Peer, method: str, params: dict[str, Any], context: str = "", **members: object) -> dict[str, Any]:
    """Ask the server, and read its response."""
    kind = f"{method}:{context}" if context else method
    sent = await peer.send(f"mcp/request:{kind}", request(method, params), **{"to": [BUSY]} | members)
    while True:
        answer = await peer.next()
        if answer.get("correlation_id") == sent:
            return answer


async def echo(peer: Peer, text: str = "hi", **members: object) -> dict[str, Any]:
    return await ask(peer, "tools/call", {"name": "echo", "arguments": {"text": text}}, "echo", **members)


async def test_a_server_takes_part_and_answers_its_methods(rooms: RunningRooms) -> None:
    ann = await rooms.join("ann")
    here = {one["id"]: one["capabilities"] for one in ann.welcome["payload"]["participants"]}
    assert here[BUSY] == ["mcp/response:*"]
    assert "server:none" not in here, "the configuration has no such server"
    introduced = await ask(ann, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert introduced["payload"]["result"]["protocolVersion"] == "2025-06-18"
    assert (await ask(ann, "ping", {}))["payload"]["result"] == {}
    listed = await ask(ann, "tools/list", {})
    assert "echo" in [tool["name"] for tool in listed["payload"]["result"]["tools"]]
    watcher = await rooms.join("bob")
    answer = await echo(ann)
    assert (answer["from"], answer["to"], answer["kind"]) == (BUSY, ["ann"], "mcp/response:tools/call:echo")
    assert answer["payload"]["result"]["content"][0]["text"] == "hi"
    assert datetime.fromisoformat(answer["ts"]).tzinfo is not None, "as every envelope that the hub itself writes"
    seen = [each["kind"] for each in await watcher.nothing() if each["kind"].startswith("mcp/")]
    assert seen == ["mcp/request:tools/call:echo", "mcp/response:tools/call:echo"], "the answer comes after the request"
    for method, params in (
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
    ):
        assert "result" in (await ask(ann, method, params))["payload"], method
    for method in ("resources/subscribe", "mgp/tools/discover", "tasks/list"):
        found = await ask(ann, method, {"uri": "a"})
        assert found["payload"]["error"]["code"] == -32601, method
    await ann.leave()
    await watcher.leave()


async def test_t90_a_request_in_a_room_runs_as_its_sender(rooms: RunningRooms) -> None:
    """The topic allows it, the hub's grants do not: the call is refused and recorded for its sender."""
    ann, bob = await rooms.join("ann"), await rooms.join("bob")
    boss = Principal("boss", "admin")
    for tool in ("echo", None):
        kind: Any = "server_grant" if tool is None else "tool_grant"
        await rooms.hub_app.access_methods.grant(boss, GrantParams(kind, "bob", "busy", "deny", tool))
        answer = await echo(bob)
        assert answer["payload"]["error"]["data"]["domain"] in ("security", "validation"), answer
    assert (await echo(ann))["payload"]["result"]["content"][0]["text"] == "hi"
    await rooms.hub_app.recorder.flushed()
    refused = (await rooms.operate("audit.search", agent="bob", result="BLOCKED"))["entries"]
    assert len(refused) == 2, "both are recorded for bob"
    await ann.leave()
    await bob.leave()


async def test_t91_a_kind_that_hides_its_payload_is_never_served(rooms: RunningRooms) -> None:
    reader = await rooms.join("reader")
    hidden = request("tools/call", {"name": "pid", "arguments": {}})
    sent = await reader.send("mcp/request:tools/call:echo", hidden, to=[BUSY])
    error = await reader.error()
    assert (error["payload"]["error"], error["correlation_id"]) == ("context_mismatch", sent)
    wrapped = {"name": "call_tool", "arguments": {"name": "pid", "arguments": {}}}
    ann = await rooms.join("ann")
    answer = await ask(ann, "tools/call", wrapped, "call_tool")
    assert answer["payload"]["error"]["data"]["name"] == "TOOL_NOT_FOUND", "its inner tool was judged by no capability"
    seen = [each["kind"] for each in await reader.nothing()]
    assert "mcp/response:tools/call:echo" not in seen
    assert (await echo(reader))["payload"]["result"]["content"][0]["text"] == "hi"
    await reader.leave()
    await ann.leave()


async def test_guests_broadcasts_and_other_topics_reach_no_server(rooms: RunningRooms) -> None:
    guest, ann = await rooms.join(None), await rooms.join("ann")
    answer = await echo(guest)
    assert answer["payload"]["error"]["data"]["name"] == "AUTH_REQUIRED"
    await ann.send("mcp/request:tools/call:echo", request("tools/call", {"name": "echo", "arguments": {"text": "x"}}))
    other = await rooms.join("ann", "other")
    await other.send(
        "mcp/request:tools/call:echo", request("tools/call", {"name": "echo", "arguments": {"text": "x"}}), to=[BUSY]
    )
    assert (await echo(ann, "last"))["payload"]["result"]["content"][0]["text"] == "last"
    assert not [each for each in await other.nothing() if each["kind"].startswith("mcp/response")]
    assert len([each for each in await guest.nothing() if each["kind"].startswith("mcp/response")]) == 1
    for peer in (guest, ann, other):
        await peer.leave()


async def test_a_participant_cancels_its_own_request_and_nobody_elses(rooms: RunningRooms) -> None:
    ann, bob = await rooms.join("ann", "strict"), await rooms.join("bob2", "strict")
    hang = request("tools/call", {"name": "hang", "arguments": {"mark": "room"}}, 77)
    await ann.send("mcp/request:tools/call:hang", hang, to=[BUSY])
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
    await bob.send("mcp/request:notifications/cancelled:77", cancel, to=[BUSY])
    marks = "tools/call", {"name": "begun_marks", "arguments": {}}, "begun_marks"
    while "room" not in (await ask(bob, *marks))["payload"]["result"]["content"][0]["text"]:
        pass
    gone = "tools/call", {"name": "cancelled_marks", "arguments": {}}, "cancelled_marks"
    assert "room" not in (await ask(bob, *gone))["payload"]["result"]["content"][0]["text"]
    await ann.send("mcp/request:notifications/cancelled:77", cancel, to=[BUSY])
    while "room" not in (await ask(bob, *gone))["payload"]["result"]["content"][0]["text"]:
        pass
    await ann.leave()
    await bob.leave()


async def test_requests_beyond_the_bound_are_answered_with_an_error(
    rooms: RunningRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.rooms.hub_tool_server.MAX_OPEN", 1)
    ann = await rooms.join("ann")
    hang = request("tools/call", {"name": "hang", "arguments": {"mark": "bound"}}, 78)
    await ann.send("mcp/request:tools/call:hang", hang, to=[BUSY])
    assert "1 requests to server:busy wait" in (await echo(ann))["payload"]["error"]["message"]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 78}}
    await ann.send("mcp/request:notifications/cancelled:78", cancel, to=[BUSY])
    assert (await echo(ann))["payload"]["result"]["content"][0]["text"] == "hi", "the bound is of open requests"
    await ann.leave()


async def test_a_fulfilment_runs_a_real_tool_with_the_fulfillers_arguments_and_answers_the_proposer(
    rooms: RunningRooms,
) -> None:
    coder, ann = await rooms.join("coder", mode="directed"), await rooms.join("ann")
    proposed = {"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "proposed"}}}
    proposal = await coder.send("mcp/proposal:tools/call:echo", proposed, to=[BUSY])
    await ann.next("mcp/proposal:tools/call:echo")
    answer = await echo(ann, "changed by ann", correlation_id=proposal)
    assert answer["to"] == ["ann", "coder"]
    got = await coder.next("mcp/response:tools/call:echo")
    assert got["payload"]["result"]["content"][0]["text"] == "changed by ann"
    await coder.leave()
    await ann.leave()


async def test_servers_come_and_go_with_the_configuration_and_open_requests_are_answered(tmp_path: Path) -> None:
    config = Config(servers={"busy": child("busy_server.py")}, live=LiveSettings(ask_s=0))
    async with running_rooms(tmp_path, config=config, build=OTHER) as rooms:
        await until(lambda: rooms.hub_app.upstreams["busy"].state is ServerState.CONNECTED)
        ann = await rooms.join("ann")
        assert [one["id"] for one in ann.welcome["payload"]["participants"]] == ["system:inbox"]
        await rooms.reload(build=STRICT)
        await ann.send("chat")
        joined = await ann.next("system/presence")
        while joined["payload"]["participant"]["id"] != BUSY:
            joined = await ann.next("system/presence")
        hang = request("tools/call", {"name": "hang", "arguments": {"mark": "leaving"}})
        sent = await ann.send("mcp/request:tools/call:hang", hang, to=[BUSY])
        await echo(ann)
        await rooms.reload(build=OTHER)
        await ann.send("chat")
        answer = await ann.next("mcp/response:tools/call:hang")
        assert answer["correlation_id"] == sent
        assert "leaves the topic" in answer["payload"]["error"]["message"]
        left = await ann.next("system/presence")
        assert left["payload"] == {"event": "leave", "participant": {"id": BUSY}}
        # A request that was passed on in the very moment in which the server leaves is answered, too.
        await rooms.reload(build=STRICT)
        rooms.gateway.topics.follow_configuration()
        await rooms.key("bob")
        (key,) = [one.hash for one in rooms.hub_app.keys.list() if one.principal == "bob"]
        bob = rooms.gateway.topics.join_locally("build", Principal("bob", "agent", key=key))
        (room,) = rooms.gateway.rooms
        queued = bob.say("mcp/request:tools/call:hang", hang, [BUSY])
        room.remove_internal(BUSY)
        found = await bob.response(queued, [BUSY], 30)
        assert found is not None
        assert b"leaves the topic" in found.payload


async def test_a_result_that_no_envelope_can_hold_is_answered_with_an_error(rooms: RunningRooms) -> None:
    ann = await rooms.join("ann")
    answer = await echo(ann, "x" * 250_000)
    assert answer["payload"]["error"]["data"]["name"] == "TOO_LARGE"
    await ann.leave()


async def test_a_result_that_the_topic_refuses_is_answered_with_an_error(
    rooms: RunningRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a result that is nested too deeply, or has numbers that no reader holds.
    monkeypatch.setattr("interlock.rooms.hub_tool_server.MAX_RESULT_BYTES", 10_000_000)
    ann = await rooms.join("ann")
    answer = await echo(ann, "x" * 135_000)
    assert answer["payload"]["error"]["data"]["name"] == "UPSTREAM_ERROR"
    await ann.leave()


SIZE = 240_000
SHAPES = {
    "arrays": "[" + ",".join(["[]"] * (SIZE // 3)) + "]",
    "names": "{" + ",".join(f'"k{number}":0' for number in range(SIZE // 10)) + "}",
    "many texts": json.dumps(["x" * 45] * 4_800),
    "one text": json.dumps("\u200b" * (SIZE // 3), ensure_ascii=False),
}
"""JSON that takes long to read. The topic passes on the last two."""
CALL = '"method":"tools/call","params":{"name":"echo","arguments":{"text":%s}}'
PLACES = {
    "mcp/request:tools/call:echo": f'"to":["{BUSY}"],"payload":{{"jsonrpc":"2.0","id":1,{CALL}}}',
    "mcp/proposal:tools/call:echo": f'"to":["{BUSY}"],"payload":{{{CALL}}}',
    "chat": '"payload":{"text":"hi","more":%s}',
}


async def test_t38_large_envelopes_of_every_shape_keep_the_loop_free(rooms: RunningRooms) -> None:
    ann = await rooms.join("ann")
    waiting = RawClient(f"http://127.0.0.1:{rooms.port}/mcp", await rooms.key("waiting"))
    await waiting.modern("tools/call", {"name": "join_room", "arguments": {"room": "build"}})
    wait = {"name": "wait_in_room", "arguments": {"room": "build", "seconds": 0}}
    for shape, value in SHAPES.items():
        for kind, rest in PLACES.items():
            head = f'"protocol":"mcpx/v0.1","id":"{uuid.uuid4()}","from":"ann","kind":"{kind}"'
            text = f"{{{head},{rest % value}}}"
            with watching() as dog:
                await ann.socket.send(text)
                marker = await ann.send("system/marker")
                async with asyncio.timeout(30):
                    while marker not in str(await ann.socket.recv()):
                        pass  # the envelope before it was read, too
                await rooms.gateway.proposals_stored()
                answer = await waiting.modern("tools/call", wait)
            # The hub looks at the bytes several times, and makes a value of each of at most ten thousand members.
            await dog.check(30 * SIZE)
            assert "result" in answer, (shape, kind)


async def test_a_large_request_is_read_in_a_thread_and_answered_like_a_small_one(rooms: RunningRooms) -> None:
    ann = await rooms.join("ann")
    assert (await echo(ann, "x" * 100_000))["payload"]["result"]["content"][0]["text"] == "x" * 100_000
    arguments = {"text": "x" * 70_000}
    borrowed = request("tools/call", {"name": "echo", "arguments": arguments}) | {"auth": await rooms.key("bob")}
    await ann.send("mcp/request:tools/call:echo", borrowed, to=[BUSY])
    answer = await ann.next("mcp/response:tools/call:echo")
    assert "result" in answer["payload"], "a credential in a payload is read by nobody"
    await ann.send(
        "mcp/request:tools/call:hang", request("tools/call", {"name": "hang", "arguments": arguments}, 78), to=[BUSY]
    )
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 78}}
    await ann.send("mcp/request:notifications/cancelled", cancel, to=[BUSY])
    assert (await echo(ann))["payload"]["result"]
    assert not [each for each in await ann.nothing() if each["kind"] == "mcp/response:tools/call:hang"]
