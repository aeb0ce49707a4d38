"""`interlock.rooms.Participant` against the real gateway, and against one that misbehaves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from cases import each_case
from hub.running_hub import until
from interlock.config.settings import Rate, TopicSettings
from interlock.protocols.mcpx.envelopes import Envelope, decode, encode
from interlock.rooms import Participant, RoomError
from interlock.rooms import participant_connection as module
from interlock.rooms.participant_answers import ParticipantAnswers
from interlock.rooms.participant_socket import room_url
from interlock.server import Server

from .running import RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

BUILD = TopicSettings(members={"coder": "proposal-only", "boss": "full-access", "worker": "response-only"})


async def participant(rooms: RunningRooms, name: str, **more: object) -> Participant:
    return Participant(f"http://127.0.0.1:{rooms.port}", "build", await rooms.key(name), **more)  # type: ignore[arg-type]


async def read(me: Participant, kind: str) -> Envelope:
    async with asyncio.timeout(30):
        async for envelope in me:
            if envelope.kind.text.startswith(kind):
                return envelope
    raise AssertionError(me.ended)


async def test_a_proposal_is_fulfilled_by_one_and_answered_by_another(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        async with (
            await participant(rooms, "coder", mode="directed") as coder,
            await participant(rooms, "boss") as boss,
            await participant(rooms, "worker") as worker,
        ):
            await until(lambda: len(coder.participants) == 3)
            assert coder.capabilities == ("mcp/proposal:*", "mcp/response:*", "chat")
            assert worker.participants["boss"] == ("mcp/*", "chat")
            params = {"name": "write_file", "arguments": {"path": "a.txt"}}
            with pytest.raises(RoomError, match="capability_violation"):
                await coder.request("tools/call", params, ["worker"])
            proposal = await coder.propose("tools/call", params)
            seen = await read(boss, "mcp/proposal")
            assert (seen.id, seen.kind.context) == (proposal, "write_file")
            asked = asyncio.create_task(boss.request("tools/call", params, ["worker"], fulfils=proposal))
            request = await read(worker, "mcp/request")
            await worker.respond(request, {"content": [{"type": "text", "text": "done"}]})
            assert (await asked)["content"][0]["text"] == "done"
            assert (await read(coder, "mcp/response")).correlation_id == request.id
            await boss.chat("well done")
            assert b"well done" in (await read(coder, "chat")).payload
        await until(lambda: not next(iter(rooms.gateway.rooms)).members)


async def test_it_answers_as_an_mcp_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, begun, ended = Server("worker", instructions="Adds."), asyncio.Event(), asyncio.Event()

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def much() -> str:
        return "x" * 600_000

    @server.tool
    async def sleep() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with running_rooms(tmp_path, build=BUILD) as rooms:
        boss = await rooms.join("boss")

        async def ask(method: str, id: int, params: dict[str, object], kind: str = "", **more: object) -> str:
            payload = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            return await boss.send(f"mcp/request:{method}{kind}", payload, **({"to": ["worker"]} | more))

        async def answer(id: int) -> dict[str, Any]:
            while (said := await boss.next())["payload"].get("id") != id:
                pass
            assert said["kind"].startswith("mcp/response:"), said
            return said

        async with await participant(rooms, "worker", server=server):
            asked = await ask("initialize", 1, {"protocolVersion": "2025-06-18", "capabilities": {}})
            said = await answer(1)
            assert (said["correlation_id"], said["to"], said["kind"]) == (asked, ["boss"], "mcp/response:initialize")
            assert said["payload"]["result"]["protocolVersion"] == "2025-06-18"
            assert said["payload"]["result"]["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
            await ask("ping", 2, {})
            assert (await answer(2))["payload"]["result"] == {}
            await ask("tools/list", 3, {})
            assert len((await answer(3))["payload"]["result"]["tools"]) == 3
            await ask("tools/call", 4, {"name": "add", "arguments": {"a": 1, "b": 2}}, ":add")
            said = await answer(4)
            assert said["kind"] == "mcp/response:tools/call:add"
            assert said["payload"]["result"]["content"][0]["text"] == "3"
            await ask("tools/call", 5, {"name": "nothing"}, ":nothing")
            assert (await answer(5))["payload"]["error"]["code"] == -32602
            await ask("logging/setLevel", 6, {"level": "info"})
            assert (await answer(6))["payload"]["error"]["code"] == -32601
            await ask("tools/call", 7, {"name": "much"}, ":much")
            assert "bytes" in (await answer(7))["payload"]["error"]["message"]
            # A broadcast is answered by nobody, and a request that its sender gave up neither.
            await ask("tools/call", 8, {"name": "add", "arguments": {"a": 1, "b": 2}}, ":add", to=[])
            await ask("tools/call", 9, {"name": "sleep"}, ":sleep")
            await asyncio.wait_for(begun.wait(), 30)
            monkeypatch.setattr("interlock.rooms.participant_answers.MAX_OPEN", 1)
            await ask("tools/list", 11, {})
            assert "1 requests wait" in (await answer(11))["payload"]["error"]["message"]
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
            await boss.send("mcp/request:notifications/cancelled", cancelled, to=["worker"])
            await asyncio.wait_for(ended.wait(), 30)
            await ask("ping", 10, {})
            while (said := await boss.next())["payload"].get("id") != 10:
                assert said["payload"].get("id") not in (8, 9)


class SlowResponder:
    """A participant whose connection takes no answers for now."""

    id = "worker"

    def __init__(self) -> None:
        self.failing, self.go_on = asyncio.Event(), asyncio.Event()
        self.failed = 0

    def may_send(self, kind: str) -> bool:
        return True

    async def respond(self, request: Envelope, result: msgspec.Raw) -> str:
        await asyncio.Event().wait()
        return ""

    async def fail(self, request: Envelope, message: str, code: int, data: object) -> str:
        self.failing.set()
        await self.go_on.wait()
        self.failed += 1
        return ""


async def test_requests_beyond_the_bound_start_no_task_and_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.rooms.participant_answers.MAX_OPEN", 4)
    me, answers = SlowResponder(), ParticipantAnswers(Server("worker"))
    await answers.start()

    async def flood() -> None:
        for number in range(20):
            payload = {"jsonrpc": "2.0", "id": number, "method": "ping", "params": {}}
            await answers.take(me, decode(encode(str(number), "boss", "mcp/request:ping", payload, to=["worker"])))

    flooding = asyncio.ensure_future(flood())
    await asyncio.wait_for(me.failing.wait(), 30)
    assert sum(task.get_name() == "room request" for task in asyncio.all_tasks()) == 4
    me.go_on.set()
    await asyncio.wait_for(flooding, 30)
    assert me.failed == 16
    await answers.close()


async def test_a_participant_that_may_not_respond_runs_no_tool(tmp_path: Path) -> None:
    server, ran = Server("worker"), []

    @server.tool
    def act() -> str:
        ran.append(1)
        return "done"

    quiet = TopicSettings(members={"boss": "full-access", "worker": "chatting"})
    async with running_rooms(tmp_path, profiles={"chatting": ("chat",)}, build=quiet) as rooms:
        boss = await rooms.join("boss")
        async with await participant(rooms, "worker", server=server) as worker:
            assert worker.may_send("chat")
            assert not worker.may_send("mcp/response:tools/call:act")
            payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "act"}}
            await boss.send("mcp/request:tools/call:act", payload, to=["worker"])
            await read(worker, "mcp/request")
            await worker.chat("read")
            await boss.next("chat")
            assert not ran


async def test_an_envelope_that_no_gateway_takes_is_refused_here(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        async with await participant(rooms, "worker") as worker:
            with pytest.raises(RoomError, match="too_large"):
                await worker.chat("x" * 600_000)
            with pytest.raises(RoomError, match="invalid_kind"):
                await worker.send("presence", {})


async def test_a_spoofed_envelope_never_reaches_the_application(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        async with await participant(rooms, "worker") as worker:
            boss = await rooms.join("boss")
            payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dangerous"}}
            await boss.send("mcp/request:tools/call:safe", payload)
            await boss.send("chat", {"text": "after it"})
            await read(worker, "chat")
            assert worker.misbehaviour == {"boss": 1}


async def test_it_comes_back_after_the_hub_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        async with await participant(rooms, "worker") as worker:
            (member,) = next(iter(rooms.gateway.rooms)).members
            member.connection.close(1001, "the hub stops")
            await until(lambda: next(iter(rooms.gateway.rooms)).counts.joined == 2)
            boss = await rooms.join("boss")
            await boss.send("chat", {"text": "hello again"}, to=["worker"])
            await read(worker, "chat")


async def test_it_does_not_fight_with_its_own_replacement(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        async with await participant(rooms, "worker") as first, await participant(rooms, "worker"):
            async with asyncio.timeout(30):
                async for _ in first:
                    pass
            assert first.ended is not None
            assert first.ended.reason == "replaced"


async def test_it_changes_its_mode_and_stays_the_same_participant(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        boss = await rooms.join("boss")
        async with await participant(rooms, "worker") as worker:
            await until(lambda: "worker" in [one.id for room in rooms.gateway.rooms for one in room.members])
            await worker.set_mode("directed")
            await boss.send("chat", {"text": "for coder"}, to=["coder"])
            await boss.send("chat", {"text": "for all"})
            assert b"for all" in (await read(worker, "chat")).payload
            await worker.chat("still here")
            await boss.next("chat")
            assert worker.ended is None


async def test_a_change_of_mode_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    few = TopicSettings(members=dict(BUILD.members), rate=Rate(per_hour=3))
    async with running_rooms(tmp_path, build=few) as rooms:
        async with await participant(rooms, "worker") as worker, await participant(rooms, "boss") as boss:
            asked = asyncio.create_task(boss.request("ping", {}, ["worker"]))
            request = await read(worker, "mcp/request")
            await boss.set_mode("directed")
            await worker.respond(request, {})
            assert await asked == {}, "the request stays open"
            with pytest.raises(RoomError, match="http_429"):
                await boss.set_mode("all")
            await worker.chat("for all")
            assert b"for all" in (await read(boss, "chat")).payload
            assert boss.ended is None


@each_case(
    ("url", "wanted"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws?topic=a%2Fb"),
        ("https://ws.example.com", "wss://ws.example.com/ws?topic=a%2Fb"),
        ("https://hub.example/wsgi/interlock/", "wss://hub.example/wsgi/interlock/ws?topic=a%2Fb"),
        ("ws://127.0.0.1:8080/ws?topic=other", "ws://127.0.0.1:8080/ws?topic=a%2Fb"),
    ],
)
def test_the_address_of_a_topic_follows_from_that_of_the_hub(url: str, wanted: str) -> None:
    assert room_url(url, "a/b") == wanted


@each_case("url", ["hub.example", "127.0.0.1:8080", "ftp://hub.example", "https://", "http://[::1"])
def test_another_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(RoomError, match="no address of a hub"):
        Participant(url, "build")


async def test_a_refused_connection_says_why(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        with pytest.raises(RoomError, match="no topic 'other'"):
            async with Participant(f"http://127.0.0.1:{rooms.port}", "other", await rooms.key("worker")):
                pass


async def test_presence_may_come_before_the_welcome() -> None:
    async def other_gateway(peer: ServerConnection) -> None:
        base = {"protocol": "mcpx/v0.1", "from": "system:gateway"}
        you = {"id": "me", "capabilities": ["chat"]}
        joined = {"kind": "system/presence", "payload": {"event": "join", "participant": you}}
        welcome = {"kind": "system/welcome", "to": ["me"], "payload": {"you": you, "participants": []}}
        await peer.send(json.dumps(base | {"id": "1"} | joined))
        await peer.send("not an envelope")
        await peer.send(json.dumps(base | {"id": "2"} | welcome))
        await peer.wait_closed()

    async with serve(other_gateway, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Participant(f"ws://127.0.0.1:{port}", "x") as me:
            assert (me.id, me.capabilities, me.participants) == ("me", ("chat",), {})
            assert me.misbehaviour == {"": 1}


async def test_it_works_with_a_gateway_that_reads_the_specification_in_another_way() -> None:
    """One that wants `ts`, sends envelopes back to their senders, and says no without naming the envelope."""

    async def other_gateway(peer: ServerConnection) -> None:
        base = {"protocol": "mcpx/v0.1", "from": "system:gateway", "to": ["me"], "ts": "2025-08-26T14:00:00Z"}
        you = {"id": "me", "capabilities": ["chat"]}
        welcome = {"kind": "system/welcome", "payload": {"you": you, "participants": []}}
        await peer.send(json.dumps(base | {"id": "1"} | welcome))
        async for text in peer:
            envelope = json.loads(text)
            assert envelope["ts"].endswith("Z")
            if envelope["kind"] == "chat":
                await peer.send(text)
                await peer.send(json.dumps(envelope | {"id": "2", "from": "other"}))
            else:
                said = {"error": "capability_violation", "message": "no", "attempted_kind": envelope["kind"]}
                await peer.send(json.dumps(base | {"id": "3", "kind": "system/error", "payload": said}))

    async with serve(other_gateway, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Participant(f"ws://127.0.0.1:{port}", "x") as me:
            assert not me.may_send("mcp/request:tools/call")
            await me.chat("hello")
            assert (await read(me, "chat")).sender == "other", "its own envelope is nothing new"
            with pytest.raises(RoomError, match="capability_violation: no"):
                await me.request("tools/call", {"name": "x"}, ["other"])


async def test_it_does_not_fight_with_its_replacement_at_another_gateway() -> None:
    joined = 0

    async def other_gateway(peer: ServerConnection) -> None:
        nonlocal joined
        joined += 1
        if peer.request is not None and "Authorization" not in peer.request.headers:
            await peer.close(1008, "Authorization required")
            return
        you = {"id": "me", "capabilities": ["chat"]}
        said = {"protocol": "mcpx/v0.1", "id": "1", "from": "system:gateway", "kind": "system/welcome"}
        await peer.send(json.dumps(said | {"payload": {"you": you, "participants": []}}))
        await peer.close(1000, "Duplicate connection")

    async with serve(other_gateway, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with Participant(url, "x", "key") as me:
            async with asyncio.timeout(30):
                async for _ in me:
                    pass
            assert (me.ended is not None and me.ended.reason, joined) == ("Duplicate connection", 1)
        with pytest.raises(RoomError, match="refused: the gateway refused the connection: Authorization required"):
            async with Participant(url, "x"):
                pass
