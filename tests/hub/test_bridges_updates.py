"""Changed resources and lists, from wherever a server tells of them, to whoever asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.client.connection import Connection
from interlock.hub.handlers import resource_subscriptions
from interlock.wire.errors import Fault

from .modern_client import ModernClient
from .running_hub import RawClient, child, running_hub, until
from .test_bridges_questions import ALL, Answerer, instructed_hub, listen, steps, tells

NOTE = "interlock://a/note://one"
UPDATED = tells("notifications/resources/updated", {"uri": "note://one"})


def updates(heard: list[Any]) -> list[str]:
    return [said["params"]["uri"] for said in heard if said.get("method") == "notifications/resources/updated"]


@pytest.mark.parametrize("before", [True, False], ids=["subscribed before its process ran", "and after"])
async def test_a_client_with_a_process_of_its_own_hears_of_what_it_changes_there(tmp_path: Path, before: bool) -> None:
    async with running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")}) as hub:
        heard: list[Any] = []
        client, other = (Answerer(hub.url + "/mcp", lambda _: None, hub.key(name)) for name in ("ada", "bob"))
        for each in (client, other):
            await each.initialize(ALL)
        listening = asyncio.ensure_future(listen(client, heard))
        if not before:
            await client.call("a__do", steps())
        await client.legacy("resources/subscribe", {"uri": NOTE})
        await other.legacy("resources/subscribe", {"uri": NOTE}, id=2)
        await client.call("a__do", steps({"until": "resources/subscribe"}, UPDATED), id=3)
        await until(lambda: updates(heard) == [NOTE])
        assert updates(other.heard) == []
        listening.cancel()


@pytest.mark.parametrize("before", [True, False], ids=["subscribed before its session was open", "and after"])
async def test_a_client_with_a_session_of_its_own_at_a_server_is_subscribed_there(tmp_path: Path, before: bool) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = Answerer(hub.url + "/mcp", lambda _: None)
        await client.initialize(ALL)
        if not before:
            await client.call("a__do", steps())
        await client.legacy("resources/subscribe", {"uri": NOTE})
        await client.call("a__do", steps(), id=2)
        assert len(instructed.asked("resources/subscribe")) == 2, "in the shared session and in its own"
        await client.legacy("resources/unsubscribe", {"uri": NOTE}, id=3)
        await until(lambda: len(instructed.asked("resources/unsubscribe")) == 2)


async def test_a_stream_hears_of_what_its_client_changes_in_a_process_of_its_own(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")}) as hub:
        client = ModernClient(hub.url + "/mcp", {})
        heard: list[Any] = []
        stream = asyncio.ensure_future(open_stream(client, heard, [NOTE]))
        await until(lambda: bool(heard))
        await client.call("a__do", steps({"until": "resources/subscribe"}, UPDATED))
        await until(lambda: updates(heard) == [NOTE])
        stream.cancel()


async def open_stream(client: ModernClient, heard: list[Any], uris: list[str]) -> None:
    """A `subscriptions/listen` stream, taken down as it comes."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": client.capabilities,
    }
    params = {"_meta": meta, "notifications": {"resourceSubscriptions": uris}}
    body = json.dumps({"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: {client.host}:{client.port}\r\ncontent-type: application/json\r\n"
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
        f"mcp-method: subscriptions/listen\r\ncontent-length: {len(body)}\r\n"
        + (f"authorization: Bearer {client.key}\r\n" if client.key else "")
    )
    reader, writer = await asyncio.open_connection(client.host, int(client.port))
    writer.write(f"{head}\r\n".encode() + body)
    try:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                heard.append(json.loads(line[5:]))
    finally:
        writer.close()


@pytest.mark.parametrize("own", [True, False], ids=["in a session of its own", "in the shared one"])
async def test_what_a_server_tells_on_the_stream_of_a_call_reaches_whoever_it_concerns(
    tmp_path: Path, own: bool
) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        heard: list[Any] = []
        client = Answerer(hub.url + "/mcp", lambda _: None)
        await client.initialize(ALL if own else {})
        await client.legacy("resources/subscribe", {"uri": NOTE})
        listening = asyncio.ensure_future(listen(client, heard))
        await until(lambda: next(iter(hub.hub_app.hub.clients.sessions)).channel.open_streams)
        listed = len(instructed.asked("tools/list"))
        await client.call("a__do", steps(UPDATED, tells("notifications/tools/list_changed")), id=2)
        await until(lambda: updates(heard) == [NOTE])
        await until(lambda: len(instructed.asked("tools/list")) > listed)
        listening.cancel()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_a_server_will_not_tell_of_is_not_promised(tmp_path: Path, era: Any) -> None:
    async with instructed_hub(tmp_path, era) as (hub, _):
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        assert (await old.legacy("resources/subscribe", {"uri": NOTE}))["result"] == {}
        assert "error" in await old.legacy("resources/subscribe", {"uri": "interlock://a/note://two"})
        new = ModernClient(hub.url + "/mcp", {})
        heard: list[Any] = []
        stream = asyncio.ensure_future(open_stream(new, heard, [NOTE, "interlock://a/note://two"]))
        await until(lambda: bool(heard))
        assert heard[0]["params"]["notifications"] == {"resourceSubscriptions": [NOTE]}
        stream.cancel()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_is_asked_for_many_resources_together(tmp_path: Path, era: Any) -> None:
    notes = [f"note://{number}" for number in range(200)]
    async with instructed_hub(tmp_path, era) as (hub, instructed):
        instructed.forget(*notes)
        heard: list[Any] = []
        uris = [f"interlock://a/{note}" for note in notes]
        stream = asyncio.ensure_future(open_stream(ModernClient(hub.url + "/mcp", {}), heard, uris))
        await until(lambda: bool(heard))
        assert heard[0]["params"]["notifications"]["resourceSubscriptions"] == uris
        asked = instructed.asked("resources/subscribe" if era == "legacy" else "subscriptions/listen")
        assert len(asked) <= (200 if era == "legacy" else 4)
        stream.cancel()


async def test_a_resource_that_a_server_does_not_have_any_more_does_not_keep_it_from_being_used(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        await client.legacy("resources/subscribe", {"uri": NOTE})
        upstream = hub.hub_app.upstreams["a"]
        instructed.forget()
        assert upstream.pool.shared is not None
        before = upstream.pool.shared
        await before.connection.close()
        await until(lambda: upstream.pool.shared not in (None, before))
        assert "result" in await client.legacy("tools/call", {"name": "a__do", "arguments": {}})
        assert len(instructed.asked("resources/subscribe")) == 2


async def test_a_stream_that_the_hub_ends_is_told_so(tmp_path: Path) -> None:
    heard: list[Any] = []
    async with instructed_hub(tmp_path) as (hub, _):
        stream = asyncio.ensure_future(open_stream(ModernClient(hub.url + "/mcp", {}), heard, [NOTE]))
        await until(lambda: bool(heard))
    await stream
    meta = {"io.modelcontextprotocol/subscriptionId": "s"}
    assert heard[1:] == [{"jsonrpc": "2.0", "id": "s", "result": {"resultType": "complete", "_meta": meta}}]


async def test_many_streams_share_what_they_ask_of_a_server_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, resources = 20, 100
    notes = [f"note://{number}" for number in range(streams * resources)]
    uris = [f"interlock://a/{note}" for note in notes]
    runs = 0
    watch = Connection.watch

    async def counted(connection: Connection, **wanted: Any) -> Mapping[str, Fault]:
        nonlocal runs
        runs += 1
        return await watch(connection, **wanted)

    monkeypatch.setattr(Connection, "watch", counted)
    async with instructed_hub(tmp_path, "modern") as (hub, instructed):
        instructed.forget(*notes)
        runs = 0
        heard: list[list[Any]] = [[] for _ in range(streams)]
        opened = [
            asyncio.ensure_future(open_stream(ModernClient(hub.url + "/mcp", {}), each, uris[at::streams]))
            for at, each in enumerate(heard)
        ]
        await until(lambda: all(heard))
        for at, each in enumerate(heard):
            assert each[0]["params"]["notifications"]["resourceSubscriptions"] == uris[at::streams]
        for stream in opened:
            stream.cancel()
        await until(lambda: not hub.hub_app.hub.clients.streams)
        await until(
            lambda: "resourceSubscriptions" not in instructed.asked("subscriptions/listen")[-1]["notifications"]
        )
        assert runs <= 4 * streams, "not one for each resource"


async def test_a_principal_may_watch_so_many_resources_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_subscriptions, "MAX_OF_PRINCIPAL", 3)
    notes = [f"note://{number}" for number in range(4)]
    uris = [f"interlock://a/{note}" for note in notes]
    async with instructed_hub(tmp_path, "legacy") as (hub, instructed):
        instructed.forget(*notes)
        client, refused, other, again = (
            ModernClient(hub.url + "/mcp", {}, hub.key(name)) for name in ("ada", "ada", "bob", "ada")
        )
        heard: list[list[Any]] = [[], [], [], []]
        first = asyncio.ensure_future(open_stream(client, heard[0], uris[:2]))
        await until(lambda: bool(heard[0]))
        answer = await refused.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris[2:]}})
        assert answer["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        theirs = asyncio.ensure_future(open_stream(other, heard[2], uris[1:]))
        await until(lambda: bool(heard[2]))
        assert heard[2][0]["params"]["notifications"]["resourceSubscriptions"] == uris[1:]
        first.cancel()
        await until(lambda: len(list(hub.hub_app.hub.clients.streams)) == 1)
        last = asyncio.ensure_future(open_stream(again, heard[3], uris[1:]))
        await until(lambda: bool(heard[3]))
        theirs.cancel()
        last.cancel()
